// The same test under every instruction set of the machine.
#pragma once

#include <gtest/gtest.h>

namespace multihead::test {

template <typename Body>
void for_each_target(Body body) {
  body();
}

}  // namespace multihead::test
