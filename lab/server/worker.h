// One thread for what takes long: sweeps over all coefficients of a head.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "multihead/observe.h"

namespace multihead::lab {

class Worker {
 public:
  /// progress is to be called by the job, which throws Cancelled when it says no.
  using Job = std::function<void(const Progress& progress)>;

  Worker();
  /// Cancels what runs, drops what waits.
  ~Worker();

  /// Jobs run in order, urgent ones before the others; an urgent one interrupts another that is not urgent, which then starts
  /// again after it. A key that waits or runs already is not taken again.
  void add(const std::string& key, bool urgent, Job job);
  /// 0 … 1 of the running job; 0 for one that waits; -1 for one that is neither.
  double progress(const std::string& key) const;
  /// The error of the last failed job with this key, or empty.
  std::string failure(const std::string& key) const;

 private:
  struct Entry {
    std::string key;
    bool urgent = false;
    Job job;
  };
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> waiting_;
  Entry running_;
  bool busy_ = false;
  std::map<std::string, std::string> failures_;
  std::atomic<double> done_{0};
  std::atomic<bool> interrupt_{false}, stop_{false};
  std::thread thread_;
};

}  // namespace multihead::lab
