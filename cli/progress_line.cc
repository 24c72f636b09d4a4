#include "progress_line.h"

#include <unistd.h>

#include <iostream>

#include "report.h"

namespace multihead::cli {

ProgressLine::~ProgressLine() {
  if (shown_ >= 0) std::cerr << "\r\x1b[K" << std::flush;
}

Progress ProgressLine::callback() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [this](double done) {
    constexpr double kPatience = 0.5;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const int percent = static_cast<int>(100 * done);
    if (seconds < kPatience || percent == shown_) return true;
    shown_ = percent;
    std::cerr << "\rmultihead: " << what_ << ": " << percent << " %";
    // An even pace is not promised, but a guess is better than none.
    if (done > 0.02) std::cerr << ", about " << seconds_text(seconds / done * (1 - done)) << " left";
    std::cerr << "\x1b[K" << std::flush;
    return true;
  };
}

}  // namespace multihead::cli
