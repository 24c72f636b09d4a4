#include "layer_config.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "multihead/layer.h"
#include "options.h"

namespace multihead::python {
namespace {

void add_rotary(nb::module_& module) {
  nb::enum_<RotaryPairing>(module, "RotaryPairing", "How the rotated dimensions of a head are paired.")
      .value("HALF_SPLIT", RotaryPairing::kHalfSplit, "(j, j + rotary_dim / 2): GPT-NeoX, Llama in the Hugging Face layout")
      .value("INTERLEAVED", RotaryPairing::kInterleaved, "(2j, 2j + 1): GPT-J, Llama in Meta's own layout");
  nb::class_<LinearRotaryScaling>(module, "LinearRotaryScaling", "Frequencies divided by `factor`.")
      .def("__init__", &init_from_fields<LinearRotaryScaling>, nb::sig("def __init__(self, *, factor: float = 1) -> None"))
      .def_rw("factor", &LinearRotaryScaling::factor);
  using Llama3 = Llama3RotaryScaling;
  nb::class_<Llama3>(module, "Llama3RotaryScaling",
                     "Llama 3.1: long wavelengths divided by `factor`, short ones kept, a blend between.")
      .def("__init__", &init_from_fields<Llama3>,
           nb::sig("def __init__(self, *, factor: float = 8, low_freq_factor: float = 1, high_freq_factor: float = 4, "
                   "original_max_positions: float = 8192) -> None"))
      .def_rw("factor", &Llama3::factor)
      .def_rw("low_freq_factor", &Llama3::low_freq_factor)
      .def_rw("high_freq_factor", &Llama3::high_freq_factor)
      .def_rw("original_max_positions", &Llama3::original_max_positions);
  using Yarn = YarnRotaryScaling;
  nb::class_<Yarn>(module, "YarnRotaryScaling", "YaRN (Peng et al. 2023).")
      .def("__init__", &init_from_fields<Yarn>,
           nb::sig("def __init__(self, *, factor: float = 1, original_max_positions: float = 4096, beta_fast: float = 32, "
                   "beta_slow: float = 1, truncate: bool = True, attention_factor: float | None = None) -> None"))
      .def_rw("factor", &Yarn::factor)
      .def_rw("original_max_positions", &Yarn::original_max_positions)
      .def_rw("beta_fast", &Yarn::beta_fast)
      .def_rw("beta_slow", &Yarn::beta_slow)
      .def_rw("truncate", &Yarn::truncate)
      .def_rw("attention_factor", &Yarn::attention_factor, nb::arg().none());
  nb::class_<Rotary>(module, "Rotary",
                     "Rotary position embedding (Su et al. 2021): pair j of position p turns by p · theta^(-2j / rotary_dim).")
      .def(
          "__init__", &init_from_fields<Rotary>,
          nb::sig("def __init__(self, *, pairing: RotaryPairing = ..., rotary_dim: int = 0, "
                  "theta: float = 10000, scaling: LinearRotaryScaling | Llama3RotaryScaling | YarnRotaryScaling | None = None) "
                  "-> None"),
          "pairing: HALF_SPLIT unless given. rotary_dim: the first so many dimensions of each head turn; 0 = head_dim.")
      .def_rw("pairing", &Rotary::pairing)
      .def_rw("rotary_dim", &Rotary::rotary_dim)
      .def_rw("theta", &Rotary::theta)
      .def_rw("scaling", &Rotary::scaling, nb::arg().none());
}

void add_norms(nb::module_& module) {
  nb::enum_<QueryKeyNorm::Kind>(module, "QueryKeyNormKind", "What a QueryKeyNorm divides by.")
      .value("RMS", QueryKeyNorm::Kind::kRms, "the root of the mean square")
      .value("LAYER", QueryKeyNorm::Kind::kLayer, "the standard deviation, after the mean was taken away");
  nb::class_<QueryKeyNorm>(module, "QueryKeyNorm", "Normalisation of query and key before the rotation; RMS unless given.")
      .def("__init__", &init_from_fields<QueryKeyNorm>,
           nb::sig("def __init__(self, *, kind: QueryKeyNormKind = ..., epsilon: float = 1e-06, "
                   "weight_plus_one: bool = False) -> None"))
      .def_rw("kind", &QueryKeyNorm::kind)
      .def_rw("epsilon", &QueryKeyNorm::epsilon)
      .def_rw("weight_plus_one", &QueryKeyNorm::weight_plus_one, "Gemma: the factor is 1 + weight");
  nb::class_<RelativeBias>(module, "RelativeBias", "T5's bucketed relative position bias (Raffel et al. 2020, §2.1).")
      .def("__init__", &init_from_fields<RelativeBias>,
           nb::sig("def __init__(self, *, max_distance: int = 128, bidirectional: bool = True) -> None"))
      .def_rw("max_distance", &RelativeBias::max_distance)
      .def_rw("bidirectional", &RelativeBias::bidirectional);
}

void add_config(nb::module_& module) {
  using C = LayerConfig;
  nb::class_<C>(module, "LayerConfig", "What a layer is. Zeros mean \"follows from the others\".")
      .def("__init__", &init_from_fields<C>,
           nb::sig("def __init__(self, *, model_dim: int = 0, num_heads: int = 1, num_kv_heads: int = 0, head_dim: int = 0, "
                   "value_dim: int = 0, key_input_dim: int = 0, value_input_dim: int = 0, output_dim: int = 0, "
                   "causal: bool = False, window: tuple[int | None, int | None] | None = None, scale: float | None = None, "
                   "softcap: float | None = None, alibi: bool = False, rotary: Rotary | None = None, "
                   "query_key_norm: QueryKeyNorm | None = None, relative_bias: RelativeBias | None = None, "
                   "clip: float | None = None) -> None"))
      .def_rw("model_dim", &C::model_dim, "width of the input and, unless output_dim is given, of the result")
      .def_rw("num_heads", &C::num_heads)
      .def_rw("num_kv_heads", &C::num_kv_heads, "0 = num_heads; must divide num_heads")
      .def_rw("head_dim", &C::head_dim, "0 = model_dim / num_heads, which must be exact")
      .def_rw("value_dim", &C::value_dim, "0 = head_dim")
      .def_rw("key_input_dim", &C::key_input_dim, "0 = model_dim")
      .def_rw("value_input_dim", &C::value_input_dim, "0 = key_input_dim")
      .def_rw("output_dim", &C::output_dim, "0 = model_dim")
      .def_rw("causal", &C::causal)
      .def_prop_rw(
          "window", [](const C& c) { return python_window(c.window); },
          [](C& c, nb::object window) {
            c.window = window.is_none() ? std::nullopt : std::optional(window_of(window, {"LayerConfig", "window"}));
          },
          nb::for_getter(nb::sig("def window(self) -> tuple[int | None, int | None] | None")),
          nb::for_setter(nb::sig("def window(self, window: tuple[int | None, int | None] | None) -> None")),
          nb::for_setter(nb::arg("window").none()), "(left, right), both included; None: unlimited")
      .def_rw("scale", &C::scale, nb::arg().none(), "None: 1 / sqrt(head_dim)")
      .def_rw("softcap", &C::softcap, nb::arg().none())
      .def_rw("alibi", &C::alibi)
      .def_rw("rotary", &C::rotary, nb::arg().none())
      .def_rw("query_key_norm", &C::query_key_norm, nb::arg().none())
      .def_rw("relative_bias", &C::relative_bias, nb::arg().none())
      .def_rw("clip", &C::clip, nb::arg().none(), "query, key and value are clamped to ±clip after their projections")
      .def("resolved", &C::resolved, "With the zeros filled in. Raises InvalidArgument for what does not fit together.")
      .def("__repr__", [](const C& c) {
        return "LayerConfig(model_dim=" + std::to_string(c.model_dim) + ", num_heads=" + std::to_string(c.num_heads) +
               ", num_kv_heads=" + std::to_string(c.num_kv_heads) + ", head_dim=" + std::to_string(c.head_dim) + ", …)";
      });
}

nb::tuple shape_of(const LayerStep& step) {
  nb::list extents;
  for (const Index extent : step.shape) extents.append(extent);
  return nb::tuple(extents);
}

void add_description(nb::module_& module) {
  nb::class_<LayerStep>(module, "LayerStep", "One step of the layer, as numbers.")
      .def_ro("name", &LayerStep::name)
      .def_ro("equation", &LayerStep::equation)
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"), "of the step's result for batch 1")
      .def_ro("parameters", &LayerStep::parameters)
      .def_ro("operations", &LayerStep::operations, "multiply and add count two")
      .def_ro("bytes", &LayerStep::bytes, "of the result in float32")
      .def_ro("stored", &LayerStep::stored, "False: never materialised, a view, or in place")
      .def("__repr__", [](const LayerStep& step) { return step.name + ": " + step.equation + " " + to_string(step.shape); });
  nb::class_<LayerDescription>(module, "LayerDescription", "Shapes, parameters, operations and bytes of a layer.")
      .def_ro("config", &LayerDescription::config)
      .def_ro("query_len", &LayerDescription::query_len)
      .def_ro("key_len", &LayerDescription::key_len)
      .def_ro("steps", &LayerDescription::steps)
      .def_ro("parameters", &LayerDescription::parameters)
      .def_ro("operations", &LayerDescription::operations)
      .def_ro("bytes_not_stored", &LayerDescription::bytes_not_stored, "the coefficients, which no step keeps")
      .def("__repr__", [](const LayerDescription& d) {
        std::string text;
        for (const LayerStep& step : d.steps) text += step.name + ": " + step.equation + " " + to_string(step.shape) + "\n";
        return text + std::to_string(d.parameters) + " parameters";
      });
  module.def(
      "describe",
      [](const LayerConfig& config, Index query_len, std::optional<Index> key_len, bool with_bias) {
        return describe(config, query_len, key_len.value_or(query_len), with_bias);
      },
      nb::arg("config"), nb::arg("query_len"), nb::arg("key_len") = nb::none(), nb::arg("with_bias") = false,
      R"(Shapes, parameters, operations and bytes of every step. key_len None: query_len. with_bias counts four biases.

Raises InvalidArgument for a negative length or an impossible configuration.)");
}

}  // namespace

void add_layer_config(nb::module_& module) {
  add_rotary(module);
  add_norms(module);
  add_config(module);
  add_description(module);
}

}  // namespace multihead::python
