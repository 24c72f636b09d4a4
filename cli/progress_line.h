// How far something long has come: one line on standard error that is rewritten, only when a person watches it.
#pragma once

#include <chrono>
#include <string>

#include "multihead/attention_map.h"

namespace multihead::cli {

class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)) {}
  /// Takes the line away again.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Reports into this line, which must live longer. Nothing is shown in the first half second.
  Progress callback();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  Clock::time_point start_ = Clock::now();
  int shown_ = -1;  // per cent
};

}  // namespace multihead::cli
