// The table of rewrite_test: every family, its names, its layout, its config.json, and what it adds.
#pragma once

#include <vector>

#include "checkpoint/rewritings_decoders.h"
#include "checkpoint/rewritings_encoders.h"

namespace multihead::testing {

inline std::vector<Rewriting> rewritings() {
  std::vector<Rewriting> table;
  add_decoders(table);
  add_encoders(table);
  return table;
}

}  // namespace multihead::testing
