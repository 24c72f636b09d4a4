// Every stage of a problem, computed by the engine: what the lab shows.
#pragma once

#include <vector>

#include "lab/server/problem.h"

namespace multihead::lab {

/// One key's step of a row's online softmax: what the fused kernel keeps instead of the row of scores.
struct OnlineStep {
  Index key = 0;
  double score = 0;
  double max = 0;              ///< running maximum m after this key
  double rescale = 1;          ///< exp(old m - new m): what the sum and the output so far are multiplied by; 0 at the first key
  double weight = 0;           ///< exp(score - m)
  double sum = 0;              ///< running sum l
  std::vector<double> output;  ///< running sum of weights times values, not yet divided by l
};

struct HeadStages {
  Matrix query, key, value;                     ///< Q_h [n, head_dim], K_h [m, head_dim], V_h [m, value_dim]
  Matrix products;                              ///< Q_h K_h^T [n, m]
  Matrix scores;                                ///< products * scale
  Matrix probabilities;                         ///< A_h [n, m]
  Matrix output;                                ///< O_h = A_h V_h [n, value_dim]
  Matrix contribution;                          ///< O_h W_O^h [n, output_dim]; over all heads they sum to Y
  std::vector<double> lse;                      ///< [n]
  std::vector<std::vector<OnlineStep>> online;  ///< a row's visible keys; empty with Mask::kAfterSoftmax
};

struct Stages {
  LayerConfig config;
  double scale = 1;
  Matrix query, key, value;  ///< all heads beside each other
  std::vector<HeadStages> heads;
  Matrix concat, output;
  /// concat W_O against the layer's own output: two ways to the same number, f32 rounding apart.
  double check = 0;
};

/// Query i may see key j under this mask. With kAfterSoftmax too: that is what the wrong way zeroes.
bool visible(Mask mask, Index i, Index j);

/// Throws InvalidArgument with the engine's text: heads that do not divide the width, weights that do not fit.
Stages compute(const Problem& problem);

/// The problem with another number of heads on the same projections: head_dim follows from their width. Throws InvalidArgument
/// when the number does not divide it.
Problem regrouped(const Problem& problem, Index num_heads);

/// For one head against several on the same projections: S_one = sqrt(d_h / d_one) * sum of S_h, since dot products add up.
struct ScoreIdentity {
  double factor = 1;
  Matrix left, right;  ///< the single head's scores, and the factor times the sum of the others'
  double difference = 0;
};
ScoreIdentity score_identity(const Stages& one, const Stages& several);

/// What is worth saying about a problem's heads.
struct Findings {
  std::vector<std::pair<Index, Index>> equal_maps;   ///< heads a < b whose coefficients agree everywhere
  std::vector<std::pair<Index, Index>> equal_heads;  ///< those whose outputs agree, too: one is a copy
  bool averaged = false;                             ///< W_O's row blocks are all alike: heads enter only by their mean
};
Findings findings(const Problem& problem, const Stages& stages);

}  // namespace multihead::lab
