// Every head of a model on one text: numbers, what each looks like, and which is worth a picture.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "multihead/observe.h"
#include "report.h"

namespace multihead::cli {

struct ExaminedHead {
  Index layer = 0;
  HeadStatistics statistics;
  HeadLook look;
};

struct ExamineRequest {
  std::vector<Index> layers;
  bool histogram = false;  ///< costs as much again
};

/// All heads of some layers' captures, layer by layer. Shows progress.
std::vector<ExaminedHead> examine(const std::vector<std::shared_ptr<const Capture>>& captures, const ExamineRequest& request);

/// Which of the heads is drawn unless somebody says otherwise.
const ExaminedHead& most_interesting(const std::vector<ExaminedHead>& heads);

/// A line a head, at most 80 wide, and above it what even attention would have; `shown` is marked. Below
/// stands what the columns mean, and what the shown head is.
std::string table_of(const std::vector<ExaminedHead>& heads, const ExaminedHead& shown);
Json json_of(const ExaminedHead& head);

}  // namespace multihead::cli
