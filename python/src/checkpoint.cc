#include "multihead/checkpoint.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "layer.h"
#include "module.h"

namespace multihead::python {

void add_checkpoint(nb::module_& module) {
  nb::class_<FoundLayer>(module, "FoundLayer", "One attention layer found in a checkpoint.")
      .def_ro("family", &FoundLayer::family, R"("llama", "bert", "gpt2" …)")
      .def_ro("name", &FoundLayer::name, R"(tensor prefix, e.g. "model.layers.0.self_attn")")
      .def_ro("role", &FoundLayer::role, R"("self" or "cross")")
      .def_ro("config", &FoundLayer::config)
      .def_ro("has_bias", &FoundLayer::has_bias)
      .def_ro("positions", &FoundLayer::positions, "how positions enter, for people")
      .def("__repr__", [](const FoundLayer& layer) { return "<FoundLayer " + layer.family + " " + layer.name + ">"; });
  nb::class_<Checkpoint>(module, "Checkpoint", "The attention layers of a checkpoint; see load_checkpoint.")
      .def_prop_ro("layers", &Checkpoint::layers, "All attention layers, in order of depth.")
      .def("__len__", [](const Checkpoint& self) { return self.layers().size(); })
      .def("load", &Checkpoint::load, nb::arg("layer"), nb::call_guard<nb::gil_scoped_release>(),
           "Layer number `layer`, ready to run. Raises InvalidArgument for one that is not there, IoError, FormatError.")
      .def(
          "load_weights",
          [](const Checkpoint& self, std::size_t layer) { return dict_of(released([&] { return self.load_weights(layer); })); },
          nb::arg("layer"), nb::sig("def load_weights(self, layer: int) -> dict[str, numpy.ndarray]"),
          "Its weights by name, in the file's element types.");
  module.def(
      "load_checkpoint", [](const std::filesystem::path& path) { return released([&] { return Checkpoint::open(path); }); },
      nb::arg("path"),
      R"(Opens a checkpoint folder (config.json beside *.safetensors) or a .safetensors file, and finds its attention layers.
Reads headers only. Raises IoError, or FormatError that shows what was found when no known family fits.)");
}

}  // namespace multihead::python
