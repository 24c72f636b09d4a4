// One call of a layer after validation.
#pragma once

#include <initializer_list>

#include "kernels/problem.h"
#include "multihead/layer.h"

namespace multihead {

/// What the caller passed, [batch, length, width] each. In self attention all three are the same tensor.
struct LayerInputs {
  const char* function;  ///< to put before error texts
  const ConstTensorView &query, &key, &value;
};

struct LayerCall {
  Index batch = 0, query_len = 0, key_len = 0;
  Index query_offset = 0;             ///< absolute position of query row 0; key row 0 stands at 0
  AttentionOptions options;           ///< complete but for a relative bias
  kernels::Strided<const void> mask;  ///< options.mask and attention_bias as strides over
  kernels::Strided<const void> bias;  ///< [batch, num_heads, query_len, key_len]; data null when absent
  kernels::DropoutDraws dropout;
};

/// Checks inputs and options against a resolved configuration. `fixed` are the layer's own options.
LayerCall check_call(const LayerInputs& inputs, const LayerConfig& config, const AttentionOptions& fixed,
                     const ForwardOptions& options);

/// Checks a call that extends a cache: shapes that agree, nothing asked for that the cache decides, room for the positions.
void check_cache(const char* function, const LayerConfig& config, const ConstTensorView& input, const KvCache& cache,
                 const ForwardOptions& options, const ForwardObservation& seen);

/// The views that the caller wants filled, checked; data null for those that are absent.
struct CheckedObservation {
  kernels::Strided<void> lse, probabilities;
};
CheckedObservation check_observation(const char* function, const LayerConfig& config, const LayerCall& call,
                                     const ForwardObservation& seen, std::initializer_list<DType> lse_dtypes,
                                     std::initializer_list<DType> probability_dtypes);

}  // namespace multihead
