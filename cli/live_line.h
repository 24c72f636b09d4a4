// A line on standard error that is rewritten, at most ten times a second, only when a person watches it.
#pragma once

#include <chrono>
#include <string>

namespace multihead::cli {

class LiveLine {
 public:
  LiveLine();
  /// Takes the line away again.
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void show(const std::string& text);
  void clear();

 private:
  bool watched_, shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

/// "12 s", "7 min", "1 h 20 min".
std::string duration_text(double seconds);

}  // namespace multihead::cli
