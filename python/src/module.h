// The parts of the extension module: one function a public header, which adds that header's names.
#pragma once

#include <nanobind/nanobind.h>

namespace multihead::python {

namespace nb = nanobind;

void add_errors(nb::module_& module);         // error.h
void add_runtime(nb::module_& module);        // runtime.h
void add_attention(nb::module_& module);      // attention.h, mask.h
void add_gradient(nb::module_& module);       // gradient.h
void add_kv_cache(nb::module_& module);       // kv_cache.h
void add_layer_config(nb::module_& module);   // layer.h: what a layer is, described
void add_layer(nb::module_& module);          // layer.h: the layer
void add_capture(nb::module_& module);        // capture.h
void add_attention_map(nb::module_& module);  // attention_map.h
void add_statistics(nb::module_& module);     // statistics.h
void add_head_kind(nb::module_& module);      // head_kind.h
void add_checkpoint(nb::module_& module);     // checkpoint.h

/// Runs work without the GIL, so that other Python threads go on.
template <typename Work>
auto released(const Work& work) {
  const nb::gil_scoped_release release;
  return work();
}

}  // namespace multihead::python
