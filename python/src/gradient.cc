#include "multihead/gradient.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>

#include "module.h"
#include "options.h"

namespace multihead::python {
namespace {

/// What attention_backward returns: arrays, or None for what was not wanted.
struct PythonGradients {
  nb::object query, key, value, attention_bias, alibi_slopes, sinks;
};

struct Tensors {
  std::optional<Tensor> query, key, value, attention_bias, alibi_slopes, sinks;
};

void allocate(Tensors& into, const std::string& name, const Array& query, const Array& key, const Array& value,
              const AttentionOptions& options) {
  const auto like = [](const ConstTensorView& view) { return Tensor::uninitialized(view.dtype, view.shape); };
  const auto heads = [](const std::vector<float>& values) {
    return Tensor::uninitialized(DType::kF32, {static_cast<Index>(values.size())});
  };
  if (name == "query") {
    into.query = like(query.view());
  } else if (name == "key") {
    into.key = like(key.view());
  } else if (name == "value") {
    into.value = like(value.view());
  } else if (name == "attention_bias" && options.attention_bias) {
    into.attention_bias = like(*options.attention_bias);
  } else if (name == "alibi_slopes" && !options.alibi_slopes.empty()) {
    into.alibi_slopes = heads(options.alibi_slopes);
  } else if (name == "sinks" && !options.sinks.empty()) {
    into.sinks = heads(options.sinks);
  } else {
    throw InvalidArgument(
        "attention_backward: wanted: expected query, key, value, and attention_bias, alibi_slopes or sinks where "
        "they are given; got '" +
        name + "'");
  }
}

nb::object array_or_none(std::optional<Tensor>& tensor, Framework framework) {
  return tensor ? array_of(*std::move(tensor), framework) : nb::none();
}

PythonGradients python_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle lse,
                                nb::handle grad_output, const std::vector<std::string>& wanted, const nb::kwargs& given) {
  const char* function = "attention_backward";
  const Array q(query, {function, "query"}, Elements::kAttention), k(key, {function, "key"}, Elements::kAttention),
      v(value, {function, "value"}, Elements::kAttention), o(output, {function, "output"}, Elements::kAttention),
      sums(lse, {function, "lse"}, Elements::kF32), grad(grad_output, {function, "grad_output"}, Elements::kAttention);
  const Options options = options_of(function, given);
  Tensors tensors;
  for (const std::string& name : wanted) allocate(tensors, name, q, k, v, options.options);
  const auto view = [](std::optional<Tensor>& tensor) { return tensor ? std::optional<TensorView>(*tensor) : std::nullopt; };
  const AttentionGradients gradients{view(tensors.query),          view(tensors.key),          view(tensors.value),
                                     view(tensors.attention_bias), view(tensors.alibi_slopes), view(tensors.sinks)};
  released([&] {
    attention_backward(q.view(), k.view(), v.view(), o.view(), sums.view(), grad.view(), gradients, options.options);
  });
  const Framework framework = q.framework();
  return {array_or_none(tensors.query, framework),        array_or_none(tensors.key, framework),
          array_or_none(tensors.value, framework),        array_or_none(tensors.attention_bias, framework),
          array_or_none(tensors.alibi_slopes, framework), array_or_none(tensors.sinks, framework)};
}

}  // namespace

void add_gradient(nb::module_& module) {
  using G = PythonGradients;
  nb::class_<G>(module, "AttentionGradients", "Gradients of a loss: arrays of their arguments' shapes, None where not wanted.")
      .def_prop_ro(
          "query", [](const G& g) { return g.query; }, nb::sig("def query(self) -> typing.Any"))
      .def_prop_ro(
          "key", [](const G& g) { return g.key; }, nb::sig("def key(self) -> typing.Any"))
      .def_prop_ro(
          "value", [](const G& g) { return g.value; }, nb::sig("def value(self) -> typing.Any"))
      .def_prop_ro(
          "attention_bias", [](const G& g) { return g.attention_bias; }, nb::sig("def attention_bias(self) -> typing.Any"),
          "broadcast axes are summed; 0 where the bias is -inf")
      .def_prop_ro(
          "alibi_slopes", [](const G& g) { return g.alibi_slopes; }, nb::sig("def alibi_slopes(self) -> typing.Any"),
          "[num_heads], float32")
      .def_prop_ro(
          "sinks", [](const G& g) { return g.sinks; }, nb::sig("def sinks(self) -> typing.Any"), "[num_heads], float32");
  module.def(
      "attention_backward", &python_backward, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
      nb::arg("output").none(), nb::arg("lse").none(), nb::arg("grad_output").none(), nb::kw_only(),
      nb::arg("wanted") = std::vector<std::string>{"query", "key", "value"}, nb::arg("options"),
      nb::sig(
          "def attention_backward(query: Array, key: Array, value: Array, output: Array, lse: Array, grad_output: Array, *, "
          "wanted: collections.abc.Sequence[str] = ('query', 'key', 'value'), " MULTIHEAD_OPTIONS ") -> AttentionGradients"),
      R"(Gradients of a loss with respect to the arguments of `attention`, given that with respect to its output: fused, from the
output and lse that the forward pass returned, without a stored score matrix (Dao 2023, §3.1.2).

query, key, value, options   as they were given to `attention`
output, lse                  what it returned (return_lse=True)
grad_output                  [batch, num_heads, query_len, value_dim]
wanted                       names of the gradients to compute: query, key, value, attention_bias, alibi_slopes, sinks

A row that sees no key gives and gets nothing: its gradients are 0. Sums are float32 and rounded once; the bits are the same for
any number of threads. Raises TypeError and ValueError as `attention` does. The GIL is released.)");
}

}  // namespace multihead::python
