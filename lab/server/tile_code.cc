#include "lab/server/tile_code.h"

#include <algorithm>
#include <cmath>

namespace multihead::lab {
namespace {

constexpr float kSteps16 = 256, kLeast16 = -32764, kMost16 = 32767;
constexpr float kSteps8 = 8, kMost8 = 250;

int code16(float log2) {
  const float code = std::round(log2 * kSteps16);
  return code < kLeast16 ? kCodes16.below : static_cast<int>(std::min(code, kMost16));
}

// A value-weighted number may exceed 1; 8 bits have no code for that and give the largest.
int code8(float log2) {
  const float code = std::round(-log2 * kSteps8);
  return code > kMost8 ? kCodes8.below : static_cast<int>(std::max(code, 0.0F));
}

int special(CellState state, const TileCodes& codes) {
  if (state == CellState::kMasked) return codes.masked;
  return state == CellState::kOutside ? codes.outside : codes.non_finite;
}

}  // namespace

std::string encode(const float* log2, const CellState* state, std::size_t count, TileBits bits) {
  const bool wide = bits == TileBits::k16;
  std::string bytes;
  bytes.reserve(wide ? 2 * count : count);
  for (std::size_t i = 0; i < count; ++i) {
    int code = 0;
    if (state[i] != CellState::kValue) {
      code = special(state[i], wide ? kCodes16 : kCodes8);
    } else {
      code = wide ? code16(log2[i]) : code8(log2[i]);
    }
    bytes.push_back(static_cast<char>(code & 0xFF));
    if (wide) bytes.push_back(static_cast<char>((code >> 8) & 0xFF));
  }
  return bytes;
}

}  // namespace multihead::lab
