#include "lab/server/worker.h"

#include <algorithm>

namespace multihead::lab {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Worker::add(const std::string& key, bool urgent, Job job) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [&](const Entry& entry) { return entry.key == key; };
  if ((busy_ && is_it(running_)) || std::any_of(waiting_.begin(), waiting_.end(), is_it)) return;
  Entry entry{key, urgent, std::move(job)};
  if (urgent) {
    // The last head that somebody opened comes first.
    waiting_.push_front(std::move(entry));
    if (busy_ && !running_.urgent) interrupt_ = true;
  } else {
    waiting_.push_back(std::move(entry));
  }
  wake_.notify_all();
}

double Worker::progress(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  if (busy_ && running_.key == key) return done_;
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Entry& entry) { return entry.key == key; }) ? 0 : -1;
}

std::string Worker::failure(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(key);
  return found == failures_.end() ? "" : found->second;
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    interrupt_ = false;
    done_ = 0;
    failures_.erase(running_.key);
    lock.unlock();
    bool again = false;
    std::string failure;
    try {
      running_.job([this](double done) {
        done_ = done;
        return !stop_ && !interrupt_;
      });
    } catch (const Cancelled&) {
      again = true;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    busy_ = false;
    if (!failure.empty()) failures_[running_.key] = failure;
    // Behind the urgent one that interrupted it, before the rest.
    if (again && !stop_) {
      const auto place = std::find_if(waiting_.begin(), waiting_.end(), [](const Entry& entry) { return !entry.urgent; });
      waiting_.insert(place, std::move(running_));
    }
  }
}

}  // namespace multihead::lab
