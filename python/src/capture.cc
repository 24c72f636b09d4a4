#include "multihead/capture.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "kv_cache.h"
#include "module.h"
#include "options.h"
#include "picture.h"

namespace multihead::python {
namespace {

using Shared = std::shared_ptr<Capture>;

nb::object python_capture(nb::handle query, nb::handle key, nb::handle value, bool values, bool outputs,
                          const nb::kwargs& given) {
  const char* function = "capture";
  const Array q(query, {function, "query"}, Elements::kAttention), k(key, {function, "key"}, Elements::kAttention),
      v(value, {function, "value"}, Elements::kAttention);
  const Options options = options_of(function, given);
  Tensor output = Tensor::uninitialized(q.view().dtype, with_last(q.view().shape, extent_of(v.view(), 3)));
  auto seen = released([&] {
    return std::make_shared<Capture>(
        capture(q.view(), k.view(), v.view(), output, options.options, {.value = values, .output = outputs}));
  });
  return nb::make_tuple(array_of(std::move(output), q.framework()), seen);
}

nb::object capture_cache(const SharedCache& cache, nb::handle query, bool values, bool outputs, const nb::kwargs& given) {
  const char* function = "KvCache.capture";
  const Array rows(query, {function, "query"}, Elements::kAttention);
  Options options = options_of(function, given);
  if (!given.contains("causal")) options.options.causal = true;
  const KvCacheConfig& config = cache.cache.config();
  const Index value_dim = config.value_dim == 0 ? config.head_dim : config.value_dim;
  Tensor output = Tensor::uninitialized(rows.view().dtype, with_last(rows.view().shape, value_dim));
  auto seen = released([&] {
    const std::shared_lock lock(cache.mutex);
    return std::make_shared<Capture>(
        capture(cache.cache, rows.view(), output, options.options, {.value = values, .output = outputs}));
  });
  return nb::make_tuple(array_of(std::move(output), rows.framework()), seen);
}

// A tensor of the capture as a property that keeps the capture alive.
template <Tensor Capture::*kMember>
nb::object member(nb::handle self) {
  return array_over(nb::cast<const Capture&>(self).*kMember, self);
}

void set_output_weight(Capture& self, nb::handle weight) {
  self.output_weight =
      weight.is_none() ? Tensor() : Tensor::copy_of(Array(weight, {"Capture", "output_weight"}, Elements::kAttention).view());
}

void add_tensors(nb::class_<Capture>& type) {
  type.def_prop_ro("query", &member<&Capture::query>, nb::sig("def query(self) -> numpy.ndarray"),
                   "[batch, num_heads, query_len, head_dim], a view")
      .def_prop_ro("key", &member<&Capture::key>, nb::sig("def key(self) -> numpy.ndarray"),
                   "[batch, num_kv_heads, key_len, head_dim], a view")
      .def_prop_ro("lse", &member<&Capture::lse>, nb::sig("def lse(self) -> numpy.ndarray"),
                   "[batch, num_heads, query_len], float64, natural logarithm, a view")
      .def_prop_ro("value", &member<&Capture::value>, nb::sig("def value(self) -> numpy.ndarray | None"),
                   "[batch, num_kv_heads, key_len, value_dim]; None when not kept")
      .def_prop_ro("output", &member<&Capture::output>, nb::sig("def output(self) -> numpy.ndarray | None"),
                   "[batch, num_heads, query_len, value_dim], before W_O; None when not kept")
      .def_prop_rw("output_weight", &member<&Capture::output_weight>, &set_output_weight,
                   nb::for_getter(nb::sig("def output_weight(self) -> numpy.ndarray | None")),
                   nb::for_setter(nb::sig("def output_weight(self, weight: Array | None) -> None")),
                   "W_O, [output_dim, num_heads * value_dim]: value-weighted statistics ask for it; None when not known");
}

void add_labels(nb::class_<Capture>& type) {
  type.def_prop_rw(
          "name", [](const Capture& c) { return c.labels.name; },
          [](Capture& c, std::string name) { c.labels.name = std::move(name); }, R"(e.g. "model.layers.3.self_attn")")
      .def_prop_rw(
          "model", [](const Capture& c) { return c.labels.model; },
          [](Capture& c, std::string model) { c.labels.model = std::move(model); }, "of which model")
      .def_prop_rw(
          "layer", [](const Capture& c) { return c.labels.layer; }, [](Capture& c, Index layer) { c.labels.layer = layer; },
          "index of the layer in its model; -1: not known")
      .def_prop_rw(
          "query_tokens", [](const Capture& c) { return c.labels.query_tokens; },
          [](Capture& c, std::vector<std::string> tokens) { c.labels.query_tokens = std::move(tokens); },
          "one string a query row, or empty: [query_len] for all batch entries or [batch * query_len], entry after entry")
      .def_prop_rw(
          "key_tokens", [](const Capture& c) { return c.labels.key_tokens; },
          [](Capture& c, std::vector<std::string> tokens) { c.labels.key_tokens = std::move(tokens); },
          "one string a key, or empty: [key_len] for all batch entries or [batch * key_len], entry after entry");
}

}  // namespace

void add_capture(nb::module_& module) {
  auto type = nb::class_<Capture>(
      module, "Capture",
      R"(What one attention call computed its coefficients from: query, key, lse, options and labels. Enough to recompute
any coefficient later, with the bits that were used; nothing in it grows with query_len · key_len. Made by `capture`,
`KvCache.capture`, `MultiHeadAttention.capture` and `load_capture`; read through `AttentionMap`.)");
  add_tensors(type);
  add_labels(type);
  type.def_prop_ro("bytes", &Capture::bytes, "of all tensors")
      .def(
          "save", [](const Capture& self, const std::filesystem::path& path) { released([&] { save_capture(path, self); }); },
          nb::arg("path"), "Writes one safetensors file, beside and renamed. Raises IoError.")
      .def(
          "_repr_png_",
          [](const std::shared_ptr<Capture>& self) {
            return self->batch() > 0 ? notebook_picture(AttentionMap(self)) : nb::object(nb::none());
          },
          nb::sig("def _repr_png_(self) -> bytes | None"),
          "What a notebook shows: all heads of batch entry 0, as AttentionMap.")
      .def("__repr__", [](const Capture& self) {
        return "<Capture " + (self.labels.name.empty() ? std::string() : self.labels.name + " ") + "query " +
               to_string(self.query.shape()) + ", key " + to_string(self.key.shape()) + ">";
      });
  module.def("capture", &python_capture, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(), nb::kw_only(),
             nb::arg("values") = false, nb::arg("outputs") = false, nb::arg("options"),
             nb::sig("def capture(query: Array, key: Array, value: Array, *, values: bool = False, outputs: bool = "
                     "False, " MULTIHEAD_OPTIONS ") -> tuple[typing.Any, Capture]"),
             R"((output, capture): `attention`, with its bits, and what it takes to look at its coefficients.

values   keep the values too: value-weighted statistics need them
outputs  keep the output too: the heads' output norms need it

Cost: that of `attention`, and one copy of query and key (and of what is kept). The other arguments are those of `attention`.)");
  module.def(
      "load_capture",
      [](const std::filesystem::path& path) { return released([&] { return std::make_shared<Capture>(load_capture(path)); }); },
      nb::arg("path"),
      "Reads what `Capture.save` or the command line wrote. Raises IoError, or FormatError naming the file and the rule.");
  const nb::object cache = module.attr("KvCache");
  nb::cpp_function_def(
      &capture_cache, nb::scope(cache), nb::name("capture"), nb::is_method(), nb::arg("query").none(), nb::kw_only(),
      nb::arg("values") = false, nb::arg("outputs") = false, nb::arg("options"),
      nb::sig("def capture(self, query: Array, *, values: bool = False, outputs: bool = False, "
              "scale: float | None = None, softcap: float | None = None, causal: bool = True, "
              "window: tuple[int | None, int | None] | None = None, mask: Array | None = None, "
              "attention_bias: Array | None = None, alibi_slopes: collections.abc.Iterable[float] | None = None, "
              "sinks: collections.abc.Iterable[float] | None = None) -> tuple[typing.Any, Capture]"),
      "(output, capture): `attend` of sequences 0, 1 …, and what it takes to look at its coefficients.");
}

}  // namespace multihead::python
