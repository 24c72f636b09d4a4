#include "live_line.h"

#include <unistd.h>

#include <cmath>
#include <iostream>

namespace multihead::cli {

LiveLine::LiveLine() : watched_(isatty(STDERR_FILENO) != 0) {}

void LiveLine::show(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!watched_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  std::cerr << "\rmultihead: " << text << "\x1b[K" << std::flush;
}

void LiveLine::clear() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

std::string duration_text(double seconds) {
  if (seconds < 100) return std::to_string(std::lround(seconds)) + " s";
  const long minutes = std::lround(seconds / 60);
  if (minutes < 100) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

}  // namespace multihead::cli
