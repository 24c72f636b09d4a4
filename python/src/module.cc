#include "module.h"

// Names appear in the stubs and in help() in this order.
NB_MODULE(_core, module) {
  using namespace multihead::python;
  module.doc() = "The extension module of multihead. Import multihead instead: it has the same names.";
  add_errors(module);
  add_runtime(module);
  add_attention(module);
  add_gradient(module);
  add_kv_cache(module);
  add_layer_config(module);
  add_capture(module);
  add_attention_map(module);
  add_statistics(module);
  add_head_kind(module);
  add_layer(module);
  add_checkpoint(module);
}
