#include "multihead/kv_cache.h"

#include <nanobind/stl/string.h>

#include <memory>

#include "kv_cache.h"
#include "module.h"
#include "options.h"

namespace multihead::python {
namespace {

void make(SharedCache* self, Index num_kv_heads, Index head_dim, Index capacity, Index sequences, Index value_dim,
          nb::handle dtype, bool sliding) {
  KvCacheConfig config;
  config.sequences = sequences;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.value_dim = value_dim;
  config.dtype = dtype_of_python(dtype, {"KvCache", "dtype"});
  config.capacity = capacity;
  config.sliding = sliding;
  new (self) SharedCache(config);
}

void append(SharedCache& self, nb::handle key, nb::handle value, nb::handle sequence) {
  const char* function = "KvCache.append";
  const Array keys(key, {function, "key"}, Elements::kAttention), values(value, {function, "value"}, Elements::kAttention);
  const std::optional<Index> one =
      sequence.is_none() ? std::nullopt : std::optional(index_of(sequence, {function, "sequence"}));
  released([&] {
    const std::unique_lock lock(self.mutex);
    if (one) {
      self.cache.append(*one, keys.view(), values.view());
    } else {
      self.cache.append(keys.view(), values.view());
    }
  });
}

nb::object attend(const SharedCache& self, nb::handle query, nb::handle out, bool return_lse, nb::handle sequences,
                  const nb::kwargs& given) {
  const char* function = "KvCache.attend";
  const Array rows(query, {function, "query"}, Elements::kAttention);
  Options options = options_of(function, given);
  if (!given.contains("causal")) options.options.causal = true;
  std::vector<Index> chosen;
  if (!sequences.is_none()) chosen = indices_of(sequences, {function, "sequences"});
  const KvCacheConfig& config = self.cache.config();
  const Dims& shape = rows.view().shape;
  const Index value_dim = config.value_dim == 0 ? config.head_dim : config.value_dim;
  Result output(out, {function, "out"}, rows.view().dtype, with_last(shape, value_dim), rows.framework());
  output.require_apart(rows.view(), "query");
  for (const Array& array : options.arrays) output.require_apart(array.view(), "mask or attention_bias");
  Tensor lse = Tensor::uninitialized(DType::kF32, without_last(shape));
  released([&] {
    const std::shared_lock lock(self.mutex);
    self.cache.attend(rows.view(), output.view(), options.options, lse, chosen);
  });
  if (!return_lse) return std::move(output).take();
  return nb::make_tuple(std::move(output).take(), array_of(std::move(lse), rows.framework()));
}

template <typename Read>
nb::object stored(const SharedCache& self, const Read& read) {
  return array_of(released([&] {
    const std::shared_lock lock(self.mutex);
    return read(self.cache);
  }));
}

template <typename Read>
auto locked(const Read& read) {
  return [read](const SharedCache& self, Index sequence) {
    const nb::gil_scoped_release release;
    const std::shared_lock lock(self.mutex);
    return read(self.cache, sequence);
  };
}

void add_reading(nb::class_<SharedCache>& type) {
  type.def("length", locked([](const KvCache& cache, Index sequence) { return cache.length(sequence); }),
           nb::arg("sequence") = 0, "Positions appended to a sequence so far: the absolute position of the next one.")
      .def("first_position", locked([](const KvCache& cache, Index sequence) { return cache.first_position(sequence); }),
           nb::arg("sequence") = 0, "The oldest position that a query can still see.")
      .def_prop_ro(
          "max_append", [](const SharedCache& self) { return self.cache.max_append(); },
          "Most positions that one append may bring.")
      .def(
          "keys",
          [](const SharedCache& self, Index sequence) {
            return stored(self, [&](const KvCache& cache) { return cache.keys(sequence); });
          },
          nb::arg("sequence") = 0, nb::sig("def keys(self, sequence: int = 0) -> numpy.ndarray"),
          "Stored keys of one sequence, oldest first, [num_kv_heads, kept, head_dim], as a copy in the storage type.")
      .def(
          "values",
          [](const SharedCache& self, Index sequence) {
            return stored(self, [&](const KvCache& cache) { return cache.values(sequence); });
          },
          nb::arg("sequence") = 0, nb::sig("def values(self, sequence: int = 0) -> numpy.ndarray"),
          "Stored values of one sequence, oldest first, [num_kv_heads, kept, value_dim], as a copy in the storage type.")
      .def_prop_ro("sequences", [](const SharedCache& self) { return self.cache.config().sequences; })
      .def_prop_ro("capacity", [](const SharedCache& self) { return self.cache.config().capacity; })
      .def_prop_ro("dtype", [](const SharedCache& self) { return python_name(self.cache.config().dtype); });
}

}  // namespace

void add_kv_cache(nb::module_& module) {
  auto type =
      nb::class_<SharedCache>(module, "KvCache",
                              R"(Keys and values of past positions, one contiguous run for each sequence and key/value head.

Absolute positions start at 0; keys are stored as given (rotate them before). A prompt in one call, in chunks or token by token
gives the same bits as one causal pass over all of it. Threads may share a cache: appending waits for those who attend.)");
  type.def(
      "__init__", &make, nb::kw_only(), nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("capacity"),
      nb::arg("sequences") = 1, nb::arg("value_dim") = 0, nb::arg("dtype") = "float32", nb::arg("sliding") = false,
      nb::sig("def __init__(self, *, num_kv_heads: int, head_dim: int, capacity: int, sequences: int = 1, value_dim: int = 0, "
              "dtype: typing.Any = 'float32', sliding: bool = False) -> None"),
      R"(capacity   positions that a sequence can hold
value_dim  0: head_dim
dtype      storage: float32, float16 or bfloat16; queries may be of any of the three
sliding    only the last `capacity` positions are kept and seen

Memory: sequences · num_kv_heads · capacity · (head_dim + value_dim) elements, allocated at once.)");
  type.def(
      "append", &append, nb::arg("key").none(), nb::arg("value").none(), nb::arg("sequence") = nb::none(),
      nb::sig("def append(self, key: Array, value: Array, sequence: int | None = None) -> None"),
      R"(Appends n positions to every sequence, key [sequences, num_kv_heads, n, head_dim] and value [sequences, num_kv_heads, n,
value_dim], or to one, both without the first axis. Converted to the storage type. Raises InvalidArgument, with nothing
appended, when they do not fit.)");
  type.def(
      "truncate",
      [](SharedCache& self, Index sequence, Index length) {
        const nb::gil_scoped_release release;
        const std::unique_lock lock(self.mutex);
        self.cache.truncate(sequence, length);
      },
      nb::arg("sequence"), nb::arg("length"), "Forgets a sequence's positions from `length` on.");
  type.def("attend", &attend, nb::arg("query").none(), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("return_lse") = false, nb::arg("sequences") = nb::none(), nb::arg("options"),
           nb::sig("def attend(self, query: Array, *, out: Array | None = None, return_lse: bool = False, "
                   "sequences: collections.abc.Iterable[int] | None = None, scale: float | None = None, "
                   "softcap: float | None = None, causal: bool = True, window: tuple[int | None, int | None] | None = None, "
                   "mask: Array | None = None, attention_bias: Array | None = None, "
                   "alibi_slopes: collections.abc.Iterable[float] | None = None, "
                   "sinks: collections.abc.Iterable[float] | None = None) -> typing.Any"),
           R"(Causal attention of the last n positions of some sequences, after they were appended.

query      [count, num_heads, n, head_dim]; row b belongs to sequences[b], or to sequence b
mask, attention_bias  over absolute key positions

Returns the output [count, num_heads, n, value_dim], or (output, lse). The GIL is released.)");
  add_reading(type);
}

}  // namespace multihead::python
