#include "layer.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <utility>

#include "kv_cache.h"
#include "module.h"
#include "multihead/capture.h"
#include "options.h"

namespace multihead::python {
namespace {

constexpr std::array<std::pair<const char*, Tensor LayerWeights::*>, 15> kWeights{{
    {"query_weight", &LayerWeights::query_weight},
    {"key_weight", &LayerWeights::key_weight},
    {"value_weight", &LayerWeights::value_weight},
    {"output_weight", &LayerWeights::output_weight},
    {"query_bias", &LayerWeights::query_bias},
    {"key_bias", &LayerWeights::key_bias},
    {"value_bias", &LayerWeights::value_bias},
    {"output_bias", &LayerWeights::output_bias},
    {"query_norm", &LayerWeights::query_norm},
    {"key_norm", &LayerWeights::key_norm},
    {"query_norm_bias", &LayerWeights::query_norm_bias},
    {"key_norm_bias", &LayerWeights::key_norm_bias},
    {"sinks", &LayerWeights::sinks},
    {"alibi_slopes", &LayerWeights::alibi_slopes},
    {"relative_bias", &LayerWeights::relative_bias},
}};

/// The inputs of one call; key_input and value_input only where they are given.
struct Inputs {
  std::vector<Array> arrays;
  LayerCall call;

  Inputs(const char* function, nb::handle input, nb::handle key_input, nb::handle value_input, nb::handle query_offset,
         nb::handle key_lengths, nb::handle mask, nb::handle attention_bias)
      : call(layer_call_of(function, query_offset, key_lengths, mask, attention_bias)) {
    arrays.emplace_back(input, Where{function, "input"}, Elements::kAttention);
    if (key_input.is_none() && !value_input.is_none()) {
      throw InvalidArgument(std::string(function) + ": value_input: expected key_input with it; got value_input alone");
    }
    if (!key_input.is_none()) arrays.emplace_back(key_input, Where{function, "key_input"}, Elements::kAttention);
    if (!value_input.is_none()) arrays.emplace_back(value_input, Where{function, "value_input"}, Elements::kAttention);
  }

  Tensor forward(const MultiHeadAttention& layer, const ForwardObservation& seen) const {
    const ConstTensorView& input = arrays[0].view();
    if (arrays.size() == 1) return layer.forward(input, call.options, seen);
    if (arrays.size() == 2) return layer.forward(input, arrays[1].view(), call.options, seen);
    return layer.forward(input, arrays[1].view(), arrays[2].view(), call.options, seen);
  }
};

// Without the GIL: over a cache, alone with it.
Tensor run(const MultiHeadAttention& layer, const Inputs& inputs, SharedCache* cache, const ForwardObservation& seen) {
  return released([&] {
    if (cache == nullptr) return inputs.forward(layer, seen);
    const std::unique_lock lock(cache->mutex);
    return layer.forward(inputs.arrays[0].view(), cache->cache, inputs.call.options, seen);
  });
}

void require_no_memory(const char* function, const SharedCache* cache, nb::handle key_input) {
  if (cache != nullptr && !key_input.is_none()) {
    throw InvalidArgument(std::string(function) + ": cache: expected self attention; got key_input with it");
  }
}

nb::object forward(const MultiHeadAttention& layer, nb::handle input, nb::handle key_input, nb::handle value_input,
                   SharedCache* cache, nb::handle query_offset, nb::handle key_lengths, nb::handle mask,
                   nb::handle attention_bias) {
  const char* function = "MultiHeadAttention.forward";
  const Inputs inputs(function, input, key_input, value_input, query_offset, key_lengths, mask, attention_bias);
  require_no_memory(function, cache, key_input);
  return array_of(run(layer, inputs, cache, {}), inputs.arrays[0].framework());
}

nb::object capture_layer(const MultiHeadAttention& layer, nb::handle input, nb::handle key_input, nb::handle value_input,
                         SharedCache* cache, nb::handle query_offset, nb::handle key_lengths, nb::handle mask,
                         nb::handle attention_bias, bool values) {
  const char* function = "MultiHeadAttention.capture";
  const Inputs inputs(function, input, key_input, value_input, query_offset, key_lengths, mask, attention_bias);
  require_no_memory(function, cache, key_input);
  const auto seen = std::make_shared<Capture>();
  ForwardObservation observation;
  observation.capture = seen.get();
  observation.capture_values = values;
  Tensor output = run(layer, inputs, cache, observation);
  return nb::make_tuple(array_of(std::move(output), inputs.arrays[0].framework()), seen);
}

#define CALL_ARGUMENTS                                                                                                     \
  "input: Array, key_input: Array | None = None, value_input: Array | None = None, *, cache: KvCache | None = None, "      \
  "query_offset: int | None = None, key_lengths: collections.abc.Iterable[int] | None = None, mask: Array | None = None, " \
  "attention_bias: Array | None = None"

template <typename Function, typename... More>
void add_call(nb::class_<MultiHeadAttention>& type, const char* name, Function function, const More&... more) {
  type.def(name, function, nb::arg("input").none(), nb::arg("key_input") = nb::none(), nb::arg("value_input") = nb::none(),
           nb::kw_only(), nb::arg("cache") = nb::none(), nb::arg("query_offset") = nb::none(),
           nb::arg("key_lengths") = nb::none(), nb::arg("mask") = nb::none(), nb::arg("attention_bias") = nb::none(), more...);
}

void add_layer_type(nb::module_& module) {
  auto type = nb::class_<MultiHeadAttention>(
      module, "MultiHeadAttention",
      R"(The multi-head attention layer (Vaswani et al. 2017, §3.2.2): project, split heads, attend, concatenate, project.

Weights are converted to float32 and packed once. Calls may run concurrently.)");
  type.def(
      "__init__",
      [](MultiHeadAttention* self, const LayerConfig& config, const nb::dict& weights) {
        LayerWeights given = weights_of("MultiHeadAttention", weights);
        const nb::gil_scoped_release release;
        new (self) MultiHeadAttention(config, std::move(given));
      },
      nb::arg("config"), nb::arg("weights"),
      nb::sig("def __init__(self, config: LayerConfig, weights: collections.abc.Mapping[str, Array]) -> None"),
      R"(weights: arrays by name, as PyTorch's Linear holds them ([out, in], y = x Wᵀ + b); heads are major in the rows of query, key
and value weights and in the columns of the output weight. Copied.

query_weight  [num_heads * head_dim, model_dim]         query_bias, key_bias, value_bias, output_bias   [out] of each
key_weight    [num_kv_heads * head_dim, key_input_dim]  query_norm, key_norm (…_bias)                   see QueryKeyNorm
value_weight  [num_kv_heads * value_dim, value_input_dim]   sinks, alibi_slopes                         [num_heads]
output_weight [output_dim, num_heads * value_dim]       relative_bias                                   [buckets, num_heads]

Raises InvalidArgument when a shape does not fit the configuration, or a weight is missing or has no counterpart in it.)");
  add_call(type, "forward", &forward, nb::sig("def forward(self, " CALL_ARGUMENTS ") -> typing.Any"),
           R"(input [batch, length, model_dim] -> [batch, length, output_dim], of the input's kind and dtype.

key_input       [batch, key_len, key_input_dim]: cross attention; value_input too when values come from elsewhere
cache           keys and values of `input` are appended to it, then its positions attend; a KvCache of this layer's shape
query_offset    absolute position of the first query; None: 0
key_lengths     valid keys of each batch entry
mask, attention_bias   as for `attention`

The GIL is released. Rows have the same bits for any number of threads, any batch neighbours and any cut into calls.)");
  add_call(type, "__call__", &forward, nb::sig("def __call__(self, " CALL_ARGUMENTS ") -> typing.Any"), "forward.");
  add_call(type, "capture", &capture_layer, nb::arg("values") = false,
           nb::sig("def capture(self, " CALL_ARGUMENTS ", values: bool = False) -> tuple[typing.Any, Capture]"),
           "(output, capture): `forward`, with its bits, and what it takes to look at its coefficients; values: keep values "
           "and output.");
  type.def_prop_ro(
      "config", [](const MultiHeadAttention& layer) { return layer.config(); }, "resolved: no zeros left");
}

void add_presets(nb::module_& module) {
  nb::class_<Preset>(module, "Preset", "A named configuration.")
      .def_ro("name", &Preset::name)
      .def_ro("summary", &Preset::summary)
      .def_ro("config", &Preset::config)
      .def_ro("default_length", &Preset::default_length);
  module.def("presets", &presets, "Named configurations, with reproducible weights and inputs.");
  module.def("find_preset", &find_preset, nb::arg("name"), "One of them by name. Raises InvalidArgument that lists the names.");
  module.def(
      "preset_weights", [](const Preset& preset, std::uint64_t seed) { return dict_of(preset_weights(preset, seed)); },
      nb::arg("preset"), nb::arg("seed") = 0,
      nb::sig("def preset_weights(preset: Preset, seed: int = 0) -> dict[str, numpy.ndarray]"),
      "Reproducible weights: uniform in ±sqrt(3 / fan_in); the lab preset's are identities.");
  module.def(
      "preset_input",
      [](const Preset& preset, Index length, std::uint64_t seed) { return array_of(preset_input(preset, length, seed)); },
      nb::arg("preset"), nb::arg("length"), nb::arg("seed") = 0,
      nb::sig("def preset_input(preset: Preset, length: int, seed: int = 0) -> numpy.ndarray"),
      "Input [length, model_dim] float32, standard normal; the lab preset's own matrix at its default length.");
}

}  // namespace

LayerWeights weights_of(const char* function, const nb::dict& arrays) {
  LayerWeights weights;
  for (const auto& [key, value] : arrays) {
    const std::string name = nb::cast<std::string>(nb::str(key));
    const auto* row = std::find_if(kWeights.begin(), kWeights.end(), [&](const auto& known) { return name == known.first; });
    if (row == kWeights.end()) {
      std::string names;
      for (const auto& known : kWeights) names += (names.empty() ? "" : ", ") + std::string(known.first);
      throw nb::type_error((std::string(function) + ": weights: no weight '" + name + "'; expected some of " + names).c_str());
    }
    if (value.is_none()) continue;
    weights.*row->second = Tensor::copy_of(Array(value, {function, row->first}, Elements::kAttention).view());
  }
  return weights;
}

nb::dict dict_of(LayerWeights weights) {
  nb::dict arrays;
  for (const auto& [name, member] : kWeights) {
    if (!(weights.*member).empty()) arrays[name] = array_of(std::move(weights.*member));
  }
  return arrays;
}

void add_layer(nb::module_& module) {
  add_layer_type(module);
  add_presets(module);
}

}  // namespace multihead::python
