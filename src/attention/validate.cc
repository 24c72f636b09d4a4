#include "attention/validate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/message.h"

namespace multihead {
namespace {

using kernels::Sequence;
using kernels::Strided;

// Positions and offsets stay far from overflow when window distances are added to them.
constexpr Index kMaxPosition = Index{1} << 48;

// Streams as "f32 or f16".
struct Names {
  std::initializer_list<DType> dtypes;

  friend std::ostream& operator<<(std::ostream& out, const Names& names) {
    const char* separator = "";
    for (const DType dtype : names.dtypes) {
      out << separator << name_of(dtype);
      separator = " or ";
    }
    return out;
  }
};

// Every element's offset must fit: |stride| * (extent - 1), summed.
void require_addressable(const char* function, const char* name, const ConstTensorView& view) {
  require(view.strides.rank() == view.rank(), function, ": ", name, " has shape ", view.shape, " but strides ", view.strides,
          "; expected one stride an axis");
  for (const Index extent : view.shape) {
    require(extent >= 0, function, ": expected ", name, " without negative extents; got ", view.shape);
  }
  if (view.size() == 0) return;
  require(view.data != nullptr, function, ": ", name, " of shape ", view.shape, " has a null data pointer");
  require(reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0, function, ": expected ", name,
          " at a multiple of ", size_of(view.dtype), " bytes, the size of ", name_of(view.dtype), "; got ", view.data);
  Index reach = static_cast<Index>(size_of(view.dtype));
  for (int axis = 0; axis < view.rank(); ++axis) {
    Index span = 0;
    const bool overflows = view.strides[axis] == INT64_MIN ||
                           __builtin_mul_overflow(std::abs(view.strides[axis]), view.shape[axis] - 1, &span) ||
                           __builtin_mul_overflow(span, Index{8}, &span) || __builtin_add_overflow(reach, span, &reach);
    require(!overflows, function, ": ", name, " with shape ", view.shape, " and strides ", view.strides,
            " reaches beyond what 63 bits address");
  }
}

template <typename Void>
Strided<Void> strided(const BasicTensorView<Void>& view) {
  Strided<Void> result{view.data, view.dtype, {}};
  for (int axis = 0; axis < view.rank(); ++axis) result.strides[static_cast<std::size_t>(axis)] = view.strides[axis];
  return result;
}

// A mask or bias of rank 1, 2 or 4 as [batch, head, query, key] with stride 0 on broadcast axes.
Strided<const void> broadcast(const char* function, const char* name, const ConstTensorView& view, const Dims& full) {
  const int rank = view.rank();
  if (rank == 3) {
    throw InvalidArgument(
        concat(function, ": ", name, " of shape ", view.shape,
               " has rank 3, which elsewhere means [heads, queries, keys], [batch, queries, keys] or "
               "[batch * heads, queries, keys]; give rank 4 with explicit 1s, e.g. [1, heads, queries, keys]"));
  }
  require(rank == 1 || rank == 2 || rank == 4, function, ": ", name,
          ": expected rank 1 [keys], 2 [queries, keys] or 4 [batch, heads, queries, keys]; got ", view.shape);
  require_addressable(function, name, view);
  Strided<const void> result{view.data, view.dtype, {}};
  for (int axis = 0; axis < rank; ++axis) {
    const int at = 4 - rank + axis;
    require(view.shape[axis] == full[at] || view.shape[axis] == 1, function, ": ", name,
            ": expected a shape that broadcasts to [batch, heads, queries, keys] = ", full, "; got ", view.shape);
    result.strides[static_cast<std::size_t>(at)] = view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  return result;
}

void require_shapes(const AttentionArguments& call) {
  const char* function = call.function;
  const ConstTensorView &query = call.query, &key = call.key;
  require(query.rank() == 4, function, ": expected query of rank 4 [batch, num_heads, query_len, head_dim]; got ", query.shape);
  require(key.rank() == 4, function, ": expected key of rank 4 [batch, num_kv_heads, key_len, head_dim]; got ", key.shape);
  require(is_attention_dtype(query.dtype), function, ": expected query of f32, f16 or bf16; got ", name_of(query.dtype));
  require(key.dtype == query.dtype, function, ": expected key of the query's dtype ", name_of(query.dtype), "; got ",
          name_of(key.dtype));
  require(key.shape[0] == query.shape[0], function, ": expected one batch size; got query ", query.shape, " and key ",
          key.shape);
  require(key.shape[3] == query.shape[3], function, ": expected one head_dim (last axis); got query ", query.shape, " and key ",
          key.shape);
  const Index heads = query.shape[1], kv_heads = key.shape[1];
  require(kv_heads == heads || (kv_heads > 0 && heads % kv_heads == 0), function,
          ": expected num_heads to be a multiple of num_kv_heads; got ", heads, " and ", kv_heads, " (query ", query.shape,
          ", key ", key.shape, ")");
  require_addressable(function, "query", query);
  require_addressable(function, "key", key);
  if (call.value == nullptr) return;
  const ConstTensorView& value = *call.value;
  require(value.rank() == 4, function, ": expected value of rank 4 [batch, num_kv_heads, key_len, value_dim]; got ",
          value.shape);
  require(value.dtype == query.dtype, function, ": expected value of the query's dtype ", name_of(query.dtype), "; got ",
          name_of(value.dtype));
  for (int axis = 0; axis < 3; ++axis) {
    require(value.shape[axis] == key.shape[axis], function,
            ": expected key and value to agree in batch, num_kv_heads and key_len; got key ", key.shape, " and value ",
            value.shape);
  }
  require_addressable(function, "value", value);
}

void require_starts(const char* function, const char* name, const std::vector<Index>& starts, Index total) {
  require(!starts.empty(), function, ": packed.", name, ": expected a list from 0 to ", total, "; got an empty one");
  require(starts.front() == 0 && starts.back() == total && std::is_sorted(starts.begin(), starts.end()), function, ": packed.",
          name, ": expected a list from 0 to ", total, " that never decreases; got ", starts.size(), " values from ",
          starts.front(), " to ", starts.back());
}

std::vector<Sequence> sequences_of(const AttentionArguments& call) {
  const char* function = call.function;
  const AttentionOptions& options = call.options;
  const Index batch = call.query.shape[0], query_len = call.query.shape[2], key_len = call.key.shape[2];
  std::vector<Sequence> sequences;
  if (options.packed) {
    const auto& [query_starts, key_starts] = *options.packed;
    require(batch == 1, function, ": packed sequences: expected tensors of batch 1; got query ", call.query.shape);
    require(options.key_lengths.empty(), function,
            ": packed sequences and key_lengths exclude each other; key_starts says the same");
    require_starts(function, "query_starts", query_starts, query_len);
    require_starts(function, "key_starts", key_starts, key_len);
    require(query_starts.size() == key_starts.size(), function, ": packed: expected as many query_starts as key_starts; got ",
            query_starts.size(), " and ", key_starts.size());
    for (std::size_t s = 0; s + 1 < query_starts.size(); ++s) {
      sequences.push_back(
          {0, 0, query_starts[s], query_starts[s + 1] - query_starts[s], key_starts[s], key_starts[s + 1] - key_starts[s], 0});
    }
  } else {
    const auto lengths = static_cast<Index>(options.key_lengths.size());
    require(lengths == 0 || lengths == batch, function, ": expected key_lengths [batch] = [", batch, "]; got ", lengths,
            " values");
    for (Index b = 0; b < batch; ++b) {
      const Index length = lengths == 0 ? key_len : options.key_lengths[static_cast<std::size_t>(b)];
      require(length >= 0 && length <= key_len, function, ": key_lengths[", b, "]: expected 0 … ", key_len, "; got ", length);
      sequences.push_back({b, b, 0, query_len, 0, length, 0});
    }
  }
  const std::size_t offsets = options.query_offsets.size();
  require(offsets == 0 || !options.top_left, function,
          ": top_left sets the query offset to 0; query_offsets was given as well");
  require(offsets <= 1 || offsets == sequences.size(), function,
          ": expected one query offset, or one per batch entry or sequence (", sequences.size(), "); got ", offsets);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    Sequence& sequence = sequences[s];
    if (options.top_left) continue;
    sequence.query_offset = offsets == 0 ? sequence.key_len - sequence.query_len : options.query_offsets[offsets == 1 ? 0 : s];
    require(sequence.query_offset >= -kMaxPosition && sequence.query_offset <= kMaxPosition, function,
            ": query_offsets: expected at most 2^48 in size; got ", sequence.query_offset);
  }
  return sequences;
}

void apply_window(const AttentionArguments& call, kernels::AttentionProblem& problem) {
  if (!call.options.window) return;
  const auto side = [&](const std::optional<Index>& distance, const char* name) {
    require(!distance || *distance >= 0, call.function, ": window.", name,
            ": expected a distance of 0 or more, or absent for unlimited; got ", distance.value_or(0));
    return distance.value_or(kernels::kUnlimited);
  };
  problem.window_left = side(call.options.window->left, "left");
  problem.window_right = side(call.options.window->right, "right");
}

const float* per_head(const AttentionArguments& call, const char* name, const std::vector<float>& values,
                      bool minus_infinity_is_legal) {
  if (values.empty()) return nullptr;
  const Index heads = call.query.shape[1];
  require(static_cast<Index>(values.size()) == heads, call.function, ": expected ", name, " [num_heads] = [", heads, "]; got ",
          values.size(), " values");
  for (const float value : values) {
    const bool legal = std::isfinite(value) || (minus_infinity_is_legal && value == -HUGE_VALF);
    require(legal, call.function, ": ", name, ": expected finite numbers", minus_infinity_is_legal ? " or -inf" : "", "; got ",
            value);
  }
  return values.data();
}

kernels::DropoutDraws draws(const char* function, const Dropout& dropout) {
  const auto p = static_cast<double>(dropout.probability);
  require(p >= 0 && p < 1, function, ": dropout: expected a probability from 0 to below 1; got ", dropout.probability);
  return {static_cast<std::uint32_t>(std::ceil(p * 0x1p31)), static_cast<float>(1 / (1 - p)), dropout.seed};
}

// Every run of `bytes` that starts at an index of the axes before `dense`.
void clear_runs(const TensorView& view, int axis, int dense, std::size_t bytes) {
  if (axis == dense) {
    std::memset(view.data, 0, bytes);
    return;
  }
  for (Index i = 0; i < view.shape[axis]; ++i) {
    TensorView part = view;
    part.data = view.offset_by(i * view.strides[axis]);
    clear_runs(part, axis + 1, dense, bytes);
  }
}

}  // namespace

void clear(const TensorView& view) {
  if (view.size() == 0) return;
  int dense = view.rank();
  Index run = 1;
  while (dense > 0 && view.strides[dense - 1] == run) run *= view.shape[--dense];
  clear_runs(view, 0, dense, static_cast<std::size_t>(run) * size_of(view.dtype));
}

ValidatedProblem validate(const AttentionArguments& call) {
  const AttentionOptions& options = call.options;
  require_shapes(call);
  ValidatedProblem result;
  result.batch = call.query.shape[0];
  result.query_len = call.query.shape[2];
  result.key_len = call.key.shape[2];
  kernels::AttentionProblem& problem = result.problem;
  problem.query = strided(call.query);
  problem.key = strided(call.key);
  if (call.value != nullptr) problem.value = strided(*call.value);
  problem.num_heads = call.query.shape[1];
  problem.group = problem.num_heads > 0 ? problem.num_heads / call.key.shape[1] : 1;
  problem.head_dim = call.query.shape[3];
  problem.value_dim = call.value != nullptr ? call.value->shape[3] : 0;
  require(problem.head_dim > 0 || options.scale, call.function,
          ": head_dim is 0, so 1 / sqrt(head_dim) does not exist; give a scale");
  require(!options.scale || std::isfinite(*options.scale), call.function, ": scale: expected a finite number; got ",
          options.scale.value_or(0));
  problem.scale = options.scale ? static_cast<double>(*options.scale) : 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  problem.softcap = static_cast<double>(options.softcap.value_or(0));
  require(std::isfinite(problem.softcap) && problem.softcap >= 0, call.function,
          ": softcap: expected a positive number, or 0 or absent for none; got ", problem.softcap);
  problem.causal = options.causal;
  apply_window(call, problem);
  problem.alibi_slopes = per_head(call, "alibi_slopes", options.alibi_slopes, false);
  problem.sinks = per_head(call, "sinks", options.sinks, true);
  if (options.dropout) problem.dropout = draws(call.function, *options.dropout);
  const Dims full{result.batch, problem.num_heads, result.query_len, result.key_len};
  if (options.mask) {
    require(options.mask->dtype == DType::kBool || options.mask->dtype == DType::kU8, call.function,
            ": mask: expected bool or u8 (true = may attend); got ", name_of(options.mask->dtype),
            "; numbers to add go into attention_bias");
    problem.mask = broadcast(call.function, "mask", *options.mask, full);
  }
  if (options.attention_bias) {
    require(is_attention_dtype(options.attention_bias->dtype), call.function,
            ": attention_bias: expected f32, f16 or bf16; got ", name_of(options.attention_bias->dtype));
    problem.bias = broadcast(call.function, "attention_bias", *options.attention_bias, full);
  }
  result.sequences = sequences_of(call);
  problem.sequences = result.sequences;
  return result;
}

Strided<const void> validate_input(const char* function, const char* name, const ConstTensorView& view, const Dims& shape,
                                   std::initializer_list<DType> dtypes) {
  require(view.shape == shape, function, ": expected ", name, " of shape ", shape, "; got ", view.shape);
  require(std::find(dtypes.begin(), dtypes.end(), view.dtype) != dtypes.end(), function, ": expected ", name, " of ",
          Names{dtypes}, "; got ", name_of(view.dtype));
  require_addressable(function, name, view);
  return strided(view);
}

Strided<void> validate_result(const char* function, const char* name, const TensorView& view, const Dims& shape,
                              std::initializer_list<DType> dtypes) {
  validate_input(function, name, view, shape, dtypes);
  // No two elements may share memory: with axes sorted by stride, each must step over all that the smaller ones reach.
  std::vector<std::pair<Index, Index>> axes;
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.shape[axis] > 1) axes.emplace_back(std::abs(view.strides[axis]), view.shape[axis]);
  }
  std::sort(axes.begin(), axes.end());
  Index reach = 0;
  for (const auto& [stride, extent] : axes) {
    require(view.size() == 0 || stride > reach, function, ": ", name, " of shape ", view.shape, " with strides ", view.strides,
            " would write two elements to one place");
    reach += stride * (extent - 1);
  }
  return strided(view);
}

}  // namespace multihead
