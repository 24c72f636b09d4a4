#include "multihead/attention.h"

#include "attention/validate.h"
#include "kernels/reference.h"

namespace multihead {

void attention(const ConstTensorView& query, const ConstTensorView& key, const ConstTensorView& value, const TensorView& output,
               const AttentionOptions& options, const std::optional<TensorView>& lse) {
  reference_attention(query, key, value, output, options, lse);
}

}  // namespace multihead
