// The lab's presets: the library's own smallest layer first, then variations on it.
#include <random>

#include "lab/server/problem.h"

namespace multihead::lab {
namespace {

constexpr Index kLength = 3, kMemoryLength = 5;

Matrix weight_of(const Tensor& weight) { return transposed(matrix_of(weight, 0, weight.shape()[0], weight.shape()[1])); }

Problem two_heads() {
  const Preset preset = find_preset("lab");
  const LayerWeights weights = preset_weights(preset, 0);
  Problem problem;
  problem.name = "two-heads";
  problem.num_heads = preset.config.num_heads;
  problem.input = matrix_of(preset_input(preset, preset.default_length, 0), 0, preset.default_length, preset.config.model_dim);
  problem.query_weight = weight_of(weights.query_weight);
  problem.key_weight = weight_of(weights.key_weight);
  problem.value_weight = weight_of(weights.value_weight);
  problem.output_weight = weight_of(weights.output_weight);
  return problem;
}

// Tokens that are the unit vectors: with identity weights each finds the key that equals it, in the head whose half it lies in.
Problem identity() {
  Problem problem = two_heads();
  problem.name = "identity";
  problem.input = problem.query_weight;
  return problem;
}

// The second head's projections are the first head's: the same columns twice.
Problem duplicate() {
  Problem problem = two_heads();
  problem.name = "duplicate";
  for (Matrix* weight : {&problem.query_weight, &problem.key_weight, &problem.value_weight}) {
    for (Index t = 0; t < weight->rows; ++t) {
      for (Index c = 0; c < 2; ++c) weight->at(t, 2 + c) = weight->at(t, c);
    }
  }
  return problem;
}

// Five memory tokens: the three of X and two that match a half each.
Problem cross() {
  Problem problem = two_heads();
  problem.name = "cross";
  Matrix memory(kMemoryLength, problem.input.cols);
  memory.values = {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 1, 1, 1, 1};
  problem.memory = memory;
  return problem;
}

}  // namespace

Problem random_problem(std::uint64_t seed) {
  Problem problem = two_heads();
  problem.name = "random";
  problem.input = Matrix(kLength, problem.query_weight.rows);
  // The generator is fixed by the standard, its distributions are not.
  std::mt19937_64 generator(seed);
  for (Matrix* matrix :
       {&problem.input, &problem.query_weight, &problem.key_weight, &problem.value_weight, &problem.output_weight}) {
    for (double& value : matrix->values) value = static_cast<double>(generator() % 5) - 2;
  }
  return problem;
}

std::vector<Problem> lab_presets() { return {two_heads(), random_problem(1), identity(), duplicate(), cross()}; }

}  // namespace multihead::lab
