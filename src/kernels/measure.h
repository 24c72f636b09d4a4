// Loops that do nothing but multiply-adds, or nothing but loads: the yardsticks of measure.cc.
#pragma once

#include "multihead/tensor.h"

namespace multihead::kernels {

/// `rounds` times a tile's worth of multiply-adds; returns the operations done, two for each.
double multiply_add(Index rounds);

/// Reads `count` floats once; returns something that depends on all of them.
float read_all(const float* data, Index count);

}  // namespace multihead::kernels
