#include "multihead/attention.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "module.h"
#include "options.h"

namespace multihead::python {
namespace {

struct Inputs {
  Array query, key, value;
  Inputs(const char* function, nb::handle q, nb::handle k, nb::handle v)
      : query(q, {function, "query"}, Elements::kAttention),
        key(k, {function, "key"}, Elements::kAttention),
        value(v, {function, "value"}, Elements::kAttention) {}
};

nb::object python_attention(nb::handle query, nb::handle key, nb::handle value, nb::handle out, bool return_lse,
                            const nb::kwargs& given) {
  const char* function = "attention";
  const Inputs in(function, query, key, value);
  const Options options = options_of(function, given);
  const Framework framework = in.query.framework();
  const ConstTensorView& rows = in.query.view();
  Result output(out, {function, "out"}, rows.dtype, with_last(rows.shape, extent_of(in.value.view(), 3)), framework);
  output.require_apart(rows, "query");
  output.require_apart(in.key.view(), "key");
  output.require_apart(in.value.view(), "value");
  for (const Array& array : options.arrays) output.require_apart(array.view(), "mask or attention_bias");
  std::optional<Tensor> lse;
  if (return_lse) lse = Tensor::uninitialized(DType::kF32, without_last(rows.shape));
  released([&] {
    attention(rows, in.key.view(), in.value.view(), output.view(), options.options,
              lse ? std::optional<TensorView>(*lse) : std::nullopt);
  });
  if (!lse) return std::move(output).take();
  return nb::make_tuple(std::move(output).take(), array_of(*std::move(lse), framework));
}

nb::object python_probabilities(nb::handle query, nb::handle key, nb::handle lse, const nb::kwargs& given) {
  const char* function = "attention_probabilities";
  const Array rows(query, {function, "query"}, Elements::kAttention), keys(key, {function, "key"}, Elements::kAttention),
      sums(lse, {function, "lse"}, Elements::kWide);
  const Options options = options_of(function, given);
  Tensor probabilities = Tensor::uninitialized(DType::kF32, with_last(rows.view().shape, extent_of(keys.view(), 2)));
  released([&] { attention_probabilities(rows.view(), keys.view(), sums.view(), probabilities, options.options); });
  return array_of(std::move(probabilities), rows.framework());
}

nb::object python_reference(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given) {
  const char* function = "reference_attention";
  const Inputs in(function, query, key, value);
  const Options options = options_of(function, given);
  const ConstTensorView& rows = in.query.view();
  Tensor output(DType::kF64, with_last(rows.shape, extent_of(in.value.view(), 3)));
  Tensor lse(DType::kF64, without_last(rows.shape));
  Tensor probabilities(DType::kF64, with_last(rows.shape, extent_of(in.key.view(), 2)));
  released([&] { reference_attention(rows, in.key.view(), in.value.view(), output, options.options, lse, probabilities); });
  const Framework framework = in.query.framework();
  return nb::make_tuple(array_of(std::move(output), framework), array_of(std::move(lse), framework),
                        array_of(std::move(probabilities), framework));
}

nb::object python_merge(nb::handle outputs, nb::handle lses, nb::handle sinks, bool return_lse) {
  const char* function = "merge";
  std::vector<Array> parts, sums;
  for (const nb::handle part : nb::cast<nb::iterable>(outputs)) {
    parts.emplace_back(part, Where{function, "outputs"}, Elements::kAttention);
  }
  for (const nb::handle part : nb::cast<nb::iterable>(lses)) sums.emplace_back(part, Where{function, "lses"}, Elements::kF32);
  if (parts.empty())
    throw InvalidArgument("merge: outputs: expected at least one part, which gives the result its shape; got none");
  std::vector<ConstTensorView> part_views, sum_views;
  for (const Array& part : parts) part_views.push_back(part.view());
  for (const Array& part : sums) sum_views.push_back(part.view());
  std::vector<float> logits;
  if (!sinks.is_none()) logits = floats_of(sinks, {function, "sinks"});
  const ConstTensorView& first = part_views.front();
  Tensor output = Tensor::uninitialized(first.dtype, first.shape);
  Tensor lse = Tensor::uninitialized(DType::kF32, without_last(first.shape));
  released([&] { multihead::merge(part_views, sum_views, output, lse, logits); });
  const Framework framework = parts.front().framework();
  if (!return_lse) return array_of(std::move(output), framework);
  return nb::make_tuple(array_of(std::move(output), framework), array_of(std::move(lse), framework));
}

AttentionPlan python_plan(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given) {
  const Inputs in("plan", query, key, value);
  const Options options = options_of("plan", given);
  return plan(in.query.view(), in.key.view(), in.value.view(), options.options);
}

void add_plan(nb::module_& module) {
  nb::class_<AttentionPlan>(module, "AttentionPlan", "What `attention` would do for some arguments: see `plan`.")
      .def_ro("target", &AttentionPlan::target, R"(instruction set, e.g. "AVX2")")
      .def_ro("kernel", &AttentionPlan::kernel, R"("panels" (queries in lanes) or "decode" (few queries, long cache))")
      .def_ro("reason", &AttentionPlan::reason, "one sentence")
      .def_ro("panel_lanes", &AttentionPlan::panel_lanes, "(query, head) pairs that one register tile works on")
      .def_ro("block_lanes", &AttentionPlan::block_lanes, "pairs of one work item")
      .def_ro("key_block", &AttentionPlan::key_block, "keys walked between two softmax updates")
      .def_ro("key_chunk", &AttentionPlan::key_chunk, "keys after which partial results are merged")
      .def_ro("work_items", &AttentionPlan::work_items, "independent pieces")
      .def_ro("threads", &AttentionPlan::threads, "threads that will share them")
      .def_ro("copies_keys", &AttentionPlan::copies_keys, "key and value blocks are converted or gathered first")
      .def_ro("workspace_bytes", &AttentionPlan::workspace_bytes, "per thread")
      .def("__repr__", [](const AttentionPlan& p) {
        return "AttentionPlan(target='" + p.target + "', kernel='" + p.kernel + "', reason='" + p.reason + "')";
      });
  module.def("plan", &python_plan, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(), nb::arg("options"),
             nb::sig("def plan(query: Array, key: Array, value: Array, *, " MULTIHEAD_OPTIONS ") -> AttentionPlan"),
             "What `attention` would do for these arguments: which kernel, on which target, cut how, and why.");
}

}  // namespace

void add_attention(nb::module_& module) {
  module.def("attention", &python_attention, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
             nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("return_lse") = false, nb::arg("options"),
             nb::sig("def attention(query: Array, key: Array, value: Array, *, out: Array | None = None, "
                     "return_lse: bool = False, " MULTIHEAD_OPTIONS ") -> typing.Any"),
             R"(Exact multi-head attention: softmax(query keyᵀ · scale + what may be seen) value (Vaswani et al. 2017, §3.2).

query   [batch, num_heads, query_len, head_dim]
key     [batch, num_kv_heads, key_len, head_dim]    query head h reads key/value head h // (num_heads / num_kv_heads)
value   [batch, num_kv_heads, key_len, value_dim]
out     [batch, num_heads, query_len, value_dim], written instead of a new array; must not overlap the inputs

float32, float16 or bfloat16, the same for all three; any strides; never copied, never converted. Sums are float32 and rounded
once, at the output.

Order: scale, softcap, attention_bias and ALiBi, visibility, softmax (a sink joins the denominator), value. A key is visible if
all constraints allow it; a row that sees none gives 0 and lse -inf.

scale           factor on the dot products; None: 1 / sqrt(head_dim); any finite number is used as it is
softcap         c: scores become c · tanh(score / c)
causal          query i, at position query_offset + i, sees the keys up to it
query_offsets   position of query row 0, one for all or one for each batch entry; None: key length - query_len, so that the
                last query sees the last key
top_left        query offset 0
window          (left, right): keys from position - left to position + right, both included; None: unlimited
key_lengths     [batch]: valid keys; those beyond are never read
mask            bool or uint8, True = may attend; [key_len], [query_len, key_len] or rank 4 with explicit 1s; never expanded
attention_bias  added to the scores; shapes as mask; -inf = not visible
alibi_slopes    [num_heads]: adds -slope · |position - key|
sinks           [num_heads]: one logit more in the denominator
packed          (query_starts, key_starts): sequences laid end to end, in tensors of batch 1
dropout         (probability, seed): coefficients become 0 behind the softmax, the others grow by 1 / (1 - probability)

Returns the output, of the query's kind (NumPy or PyTorch) and dtype, or (output, lse) with return_lse: lse [batch, num_heads,
query_len] float32 is the natural logarithm of the softmax denominator.

Raises TypeError for a wrong dtype, byte order or device, ValueError for shapes and options that have no meaning; both name the
argument. The GIL is released. The bits depend on a row's own inputs and the target alone: not on threads or neighbours.)");
  module.def(
      "attention_probabilities", &python_probabilities, nb::arg("query").none(), nb::arg("key").none(), nb::arg("lse").none(),
      nb::arg("options"),
      nb::sig("def attention_probabilities(query: Array, key: Array, lse: Array, *, " MULTIHEAD_OPTIONS ") -> typing.Any"),
      R"(Every coefficient, [batch, num_heads, query_len, key_len] float32, recomputed from query, key and the lse that
`attention` returned for the same options, or the float64 one of a Capture: a rounded lse puts all coefficients of a row off by
the same factor, 2e-6 for one of 32. The scores have the bits that were used. For those who can afford so many; AttentionMap looks
at some of them. Pairs that are not visible are exactly 0.)");
  module.def(
      "reference_attention", &python_reference, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
      nb::arg("options"),
      nb::sig("def reference_attention(query: Array, key: Array, value: Array, *, " MULTIHEAD_OPTIONS
              ") -> tuple[typing.Any, typing.Any, typing.Any]"),
      R"(The definition of right: (output, lse, probabilities) in float64, four plain passes over a row, on one thread.)");
  module.def(
      "merge", &python_merge, nb::arg("outputs").none(), nb::arg("lses").none(), nb::arg("sinks") = nb::none(), nb::kw_only(),
      nb::arg("return_lse") = false,
      nb::sig("def merge(outputs: collections.abc.Iterable[Array], lses: collections.abc.Iterable[Array], "
              "sinks: collections.abc.Iterable[float] | None = None, *, return_lse: bool = False) -> typing.Any"),
      R"(Joins results over disjoint sets of keys: with L = log(sum exp(lse_p)), output = sum exp(lse_p - L) output_p and lse = L.

outputs  [batch, num_heads, query_len, value_dim] each, in the order in which they are merged
lses     [batch, num_heads, query_len] float32 each
sinks    [num_heads]: compute the parts without them and add them here, once

A part whose lse is -inf is neutral. Returns the output, of the first part's dtype, or (output, lse).)");
  module.def(
      "alibi_slopes", &alibi_slopes, nb::arg("num_heads"),
      "ALiBi slopes (Press et al. 2022, §3): 2^(-8 i / num_heads) for powers of two; otherwise those of the next lower power "
      "of two, then every other slope of twice that.");
  module.def(
      "last_keys", [](Index w) { return python_window(last_keys(w)); }, nb::arg("w"),
      nb::sig("def last_keys(w: int) -> tuple[int | None, int | None]"),
      "The window of the last w keys, the query's own included: (w - 1, 0).");
  add_plan(module);
}

}  // namespace multihead::python
