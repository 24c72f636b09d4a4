// Progress of a sweep whose pieces finish on several threads.
#pragma once

#include <algorithm>
#include <mutex>

#include "multihead/attention_map.h"

namespace multihead {

class Meter {
 public:
  /// `total` in any unit. An empty function: nothing is reported.
  Meter(const Progress& report, double total) : report_(report), total_(total) {}

  /// Adds to what is done. Throws Cancelled when the callback says so, in whichever thread asked it.
  void add(double amount) {
    if (!report_) return;
    const std::lock_guard lock(mutex_);
    done_ += amount;
    if (cancelled_ || !report_(total_ > 0 ? std::min(1.0, done_ / total_) : 1.0)) {
      cancelled_ = true;
      throw Cancelled("cancelled by the progress callback");
    }
  }

 private:
  const Progress& report_;
  const double total_;
  std::mutex mutex_;
  double done_ = 0;
  bool cancelled_ = false;
};

}  // namespace multihead
