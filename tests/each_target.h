// The same test under every instruction set of the machine.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "multihead/runtime.h"

namespace multihead::test {

/// Calls body() with each of targets() in use, on one thread (what more threads do is the subject of determinism_test.cc);
/// failures name the target. Afterwards the target is what it was and the number of threads the default.
template <typename Body>
void for_each_target(Body body) {
  const std::string before = active_target();
  set_num_threads(1);
  for (const std::string& target : targets()) {
    SCOPED_TRACE("target " + target);
    force_target(target);
    body();
  }
  force_target(before);
  set_num_threads(0);
}

}  // namespace multihead::test
