// The lab's subject: a layer small enough to read, with its inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/server/matrix.h"
#include "multihead/layer.h"

namespace multihead::lab {

/// Largest length and width: what fits on a screen, and bounds the work of a request to well below a millisecond.
constexpr Index kMaxLength = 12, kMaxWidth = 16;

enum class Mask {
  kNone,
  kCausal,  ///< query i sees keys <= i
  /// The wrong way that the lab lets people try: the future's coefficients set to 0 after a softmax that saw it.
  kAfterSoftmax,
};

/// Weights as in the equation, Q = X W_Q: [in, out]. (LayerWeights holds their transposes.)
struct Problem {
  std::string name;  ///< of the preset; empty for one that came by HTTP
  Index num_heads = 1;
  Index head_dim = 0;  ///< 0 = model_dim / num_heads, which must be exact
  std::optional<float> scale;
  Mask mask = Mask::kNone;
  Matrix input;                  ///< X  [n, d]
  std::optional<Matrix> memory;  ///< X' [m, d]; absent: self attention
  Matrix query_weight, key_weight, value_weight, output_weight;

  LayerConfig config() const;
  const Matrix& key_input() const { return memory ? *memory : input; }
};

/// Throws InvalidArgument that names the member. Members: num_heads, input, query_weight, key_weight, value_weight,
/// output_weight; optional head_dim, scale, mask ("none", "causal", "after_softmax"), memory, compare_heads (not kept here).
Problem problem_from(const Json& json);
Json json_of(const Problem& problem);

/// "two-heads", the first that a visitor sees, "random", "identity", "duplicate", "cross".
std::vector<Problem> lab_presets();
/// Whole numbers from -2 to 2 everywhere, the same for the same seed on every machine.
Problem random_problem(std::uint64_t seed);

}  // namespace multihead::lab
