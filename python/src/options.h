// Keyword arguments as the library's option structs. Names are those of the C++ fields.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "array.h"
#include "multihead/attention.h"
#include "multihead/layer.h"

namespace multihead::python {

/// How the keyword arguments of every function that takes AttentionOptions are written in its signature.
#define MULTIHEAD_OPTIONS                                                                                               \
  "scale: float | None = None, softcap: float | None = None, causal: bool = False, "                                    \
  "query_offsets: int | collections.abc.Iterable[int] | None = None, top_left: bool = False, "                          \
  "window: tuple[int | None, int | None] | None = None, key_lengths: collections.abc.Iterable[int] | None = None, "     \
  "mask: Array | None = None, attention_bias: Array | None = None, "                                                    \
  "alibi_slopes: collections.abc.Iterable[float] | None = None, sinks: collections.abc.Iterable[float] | None = None, " \
  "packed: tuple[collections.abc.Iterable[int], collections.abc.Iterable[int]] | None = None, "                         \
  "dropout: tuple[float, int] | None = None"

/// Options with the arrays that their views point into.
struct Options {
  AttentionOptions options;
  std::vector<Array> arrays;
};

/// TypeError that names what it does not know or cannot convert. None counts as not given.
Options options_of(const char* function, const nb::kwargs& given);

/// The same for a layer's call.
struct LayerCall {
  ForwardOptions options;
  std::vector<Array> arrays;
};
LayerCall layer_call_of(const char* function, nb::handle query_offset, nb::handle key_lengths, nb::handle mask,
                        nb::handle attention_bias);

/// One number, or TypeError that names the argument.
Index index_of(nb::handle value, const Where& where);
float float_of(nb::handle value, const Where& where);
bool bool_of(nb::handle value, const Where& where);
/// Any iterable of them.
std::vector<Index> indices_of(nb::handle values, const Where& where);
std::vector<float> floats_of(nb::handle values, const Where& where);

/// (left, right) with None for "unlimited", both ways.
Window window_of(nb::handle value, const Where& where);
nb::object python_window(const std::optional<Window>& window);

}  // namespace multihead::python
