// Tiles on the wire: raw log2 values as small integers, so that colours, scales and limits are the page's affair.
//
//     16 bits, little endian: code / 256 is log2, from -127.98 to 127.99    8 bits: -code / 8 is log2, codes 0 … 250
//
// Codes beside the numbers say what a cell is when it is none.
#pragma once

#include <cstdint>
#include <string>

#include "multihead/observe.h"

namespace multihead::lab {

enum class TileBits { k8 = 8, k16 = 16 };

struct TileCodes {
  int masked, outside, non_finite, below;  ///< below: visible, but smaller than the smallest code
};
inline constexpr TileCodes kCodes16{-32768, -32767, -32766, -32765};
inline constexpr TileCodes kCodes8{255, 254, 253, 252};

/// Row-major codes of `count` numbers.
std::string encode(const float* log2, const CellState* state, std::size_t count, TileBits bits);

}  // namespace multihead::lab
