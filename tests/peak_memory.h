// How much memory a piece of code needed at its peak, as the kernel counts it. Linux only.
#pragma once

#include <malloc.h>

#include <fstream>
#include <string>

namespace multihead::test {

class PeakMemory {
 public:
  /// Forgets the peak so far. Memory that earlier tests freed is given back first: its reuse would go unnoticed.
  PeakMemory() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;
    before_ = kilobytes("VmRSS");
    works_ = before_ > 0 && kilobytes("VmHWM") <= before_ + 1024;
  }

  /// False where the system does not tell, or a sanitizer's shadow memory would be counted.
  bool works() const {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return false;
#endif
#endif
    return works_;
  }

  /// Bytes beyond what was in use at the beginning.
  long bytes() const { return (kilobytes("VmHWM") - before_) * 1024; }

 private:
  static long kilobytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(field + ":", 0) == 0) return std::stol(line.substr(field.size() + 1));
    }
    return -1;
  }

  long before_ = 0;
  bool works_ = false;
};

}  // namespace multihead::test
