#include "multihead/statistics.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "array.h"
#include "module.h"
#include "options.h"
#include "progress.h"

namespace multihead::python {
namespace {

template <typename Values>
nb::object numpy_of(const Values& values) {
  using T = typename Values::value_type;
  Tensor tensor = Tensor::uninitialized(dtype_of<T>, {static_cast<Index>(values.size())});
  std::memcpy(tensor.data<T>(), values.data(), values.size() * sizeof(T));
  return array_of(std::move(tensor));
}

// A list of numbers as a NumPy array.
template <auto kMember>
nb::object head_array(const HeadStatistics& head) {
  return numpy_of(head.*kMember);
}
template <auto kMember>
nb::object row_array(const HeadStatistics& head) {
  return numpy_of(head.rows.*kMember);
}

nb::list python_statistics(const AttentionMap& map, nb::handle heads, nb::handle offsets, bool columns, bool distance_profile,
                           bool histogram, bool tokens, bool values, bool baselines, nb::handle progress) {
  StatisticsRequest request;
  if (!heads.is_none()) request.heads = indices_of(heads, {"statistics", "heads"});
  if (!offsets.is_none()) request.offsets = indices_of(offsets, {"statistics", "offsets"});
  request.columns = columns;
  request.distance_profile = distance_profile;
  request.histogram = histogram;
  request.tokens = tokens;
  request.values = values;
  request.baselines = baselines;
  nb::list result;
  for (HeadStatistics& head :
       PythonProgress(progress).run([&](const Progress& report) { return statistics(map, request, report); })) {
    result.append(std::move(head));
  }
  return result;
}

#define ARRAY(name) nb::sig("def " name "(self) -> numpy.ndarray")

void add_rows(nb::class_<HeadStatistics>& type) {
  type.def_prop_ro("row_visible", &row_array<&RowStatistics::visible>, ARRAY("row_visible"), "keys that each row sees, V(i)")
      .def_prop_ro("row_entropy", &row_array<&RowStatistics::entropy>, ARRAY("row_entropy"), "nats, 0 … ln V(i)")
      .def_prop_ro("row_max_probability", &row_array<&RowStatistics::max_probability>, ARRAY("row_max_probability"))
      .def_prop_ro("row_effective_keys", &row_array<&RowStatistics::effective_keys>, ARRAY("row_effective_keys"),
                   "(sum p)² / sum p², 1 … V(i)")
      .def_prop_ro("row_mean_distance", &row_array<&RowStatistics::mean_distance>, ARRAY("row_mean_distance"), "sum p |d|")
      .def_prop_ro("row_max_score", &row_array<&RowStatistics::max_score>, ARRAY("row_max_score"), "before lse")
      .def_prop_ro("row_mass", &row_array<&RowStatistics::mass>, ARRAY("row_mass"), "sum p: 1, less with a sink logit");
}

void add_columns(nb::class_<HeadStatistics>& type) {
  type.def_prop_ro("received", &head_array<&HeadStatistics::received>, ARRAY("received"), "attention received, [key_len]")
      .def_prop_ro("received_uniform", &head_array<&HeadStatistics::received_uniform>, ARRAY("received_uniform"))
      .def_prop_ro("seen_by", &head_array<&HeadStatistics::seen_by>, ARRAY("seen_by"), "rows that see each key")
      .def_ro("first_distance", &HeadStatistics::first_distance, "the distance of entry 0 of the three below")
      .def_prop_ro("distance_mass", &head_array<&HeadStatistics::distance_mass>, ARRAY("distance_mass"),
                   "sum of p at a distance")
      .def_prop_ro("distance_pairs", &head_array<&HeadStatistics::distance_pairs>, ARRAY("distance_pairs"),
                   "visible pairs at that distance")
      .def_prop_ro("distance_uniform", &head_array<&HeadStatistics::distance_uniform>, ARRAY("distance_uniform"))
      .def_prop_ro("histogram_pairs", &head_array<&HeadStatistics::histogram_pairs>, ARRAY("histogram_pairs"),
                   "pairs with b/2 <= -log2 p < (b + 1)/2")
      .def_prop_ro("histogram_mass", &head_array<&HeadStatistics::histogram_mass>, ARRAY("histogram_mass"))
      .def_prop_ro("value_norms", &head_array<&HeadStatistics::value_norms>, ARRAY("value_norms"), "‖v_j W_O‖, [key_len]");
}

void add_heads(nb::class_<HeadStatistics>& type) {
  type.def_ro("head", &HeadStatistics::head)
      .def_ro("live_rows", &HeadStatistics::live_rows, "rows that see a key; means are over them")
      .def_ro("entropy", &HeadStatistics::entropy, "mean, nats")
      .def_ro("normalized_entropy", &HeadStatistics::normalized_entropy, "mean of entropy / ln V(i); uniform: 1")
      .def_ro("confidence", &HeadStatistics::confidence, "mean of the rows' largest (Voita et al. 2019)")
      .def_ro("confidence_without_first", &HeadStatistics::confidence_without_first, "… without the first 1 … 4 keys")
      .def_ro("effective_keys", &HeadStatistics::effective_keys)
      .def_ro("mean_distance", &HeadStatistics::mean_distance)
      .def_ro("row_mass_mean", &HeadStatistics::row_mass)
      .def_ro("squares", &HeadStatistics::squares, "sum of p² over all pairs")
      .def_ro("max_score", &HeadStatistics::max_score, "over all rows")
      .def_ro("sink_mass", &HeadStatistics::sink_mass, "mean mass on the first 1 … 4 keys (Xiao et al. 2023)")
      .def_ro("offset_mass", &HeadStatistics::offset_mass, "mean mass at each of the asked distances")
      .def_ro("sink_alpha", &HeadStatistics::sink_alpha, "received by key 0 / rows that see it (Gu et al. 2024)")
      .def_ro("is_sink_head", &HeadStatistics::is_sink_head, "sink_alpha above their threshold, 0.3")
      .def_ro("has_tokens", &HeadStatistics::has_tokens)
      .def_ro("duplicate_mass", &HeadStatistics::duplicate_mass, "mean mass on earlier keys that carry the row's own token")
      .def_ro("induction_mass", &HeadStatistics::induction_mass, "mean mass on keys behind which the row's token stands")
      .def_ro("has_values", &HeadStatistics::has_values)
      .def_ro("value_weighted_mass", &HeadStatistics::value_weighted_mass)
      .def_ro("value_weighted_sink", &HeadStatistics::value_weighted_sink)
      .def_ro("has_output", &HeadStatistics::has_output)
      .def_ro("output_norm", &HeadStatistics::output_norm)
      .def("__repr__", [](const HeadStatistics& head) {
        return "<HeadStatistics head " + std::to_string(head.head) + ": entropy " + std::to_string(head.entropy.value) +
               " of " + std::to_string(head.entropy.uniform) + " nats>";
      });
}

/// ForwardStatistics as arrays of the query's kind.
struct PythonForward {
  nb::object entropy, max_probability, effective_keys, mean_distance;
};

nb::object python_forward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, bool return_lse,
                          const nb::kwargs& given) {
  const char* function = "attention_with_statistics";
  const Array rows(query, {function, "query"}, Elements::kAttention), keys(key, {function, "key"}, Elements::kAttention),
      values(value, {function, "value"}, Elements::kAttention);
  const Options options = options_of(function, given);
  const Framework framework = rows.framework();
  const Dims& shape = rows.view().shape;
  Result output(out, {function, "out"}, rows.view().dtype, with_last(shape, extent_of(values.view(), 3)), framework);
  output.require_apart(rows.view(), "query");
  output.require_apart(keys.view(), "key");
  output.require_apart(values.view(), "value");
  for (const Array& array : options.arrays) output.require_apart(array.view(), "mask or attention_bias");
  std::optional<Tensor> lse;
  if (return_lse) lse = Tensor::uninitialized(DType::kF32, without_last(shape));
  ForwardStatistics seen = released([&] {
    return attention_with_statistics(rows.view(), keys.view(), values.view(), output.view(), options.options,
                                     lse ? std::optional<TensorView>(*lse) : std::nullopt);
  });
  PythonForward numbers{array_of(std::move(seen.entropy), framework), array_of(std::move(seen.max_probability), framework),
                        array_of(std::move(seen.effective_keys), framework),
                        array_of(std::move(seen.mean_distance), framework)};
  if (!lse) return nb::make_tuple(std::move(output).take(), std::move(numbers));
  return nb::make_tuple(std::move(output).take(), array_of(*std::move(lse), framework), std::move(numbers));
}

void add_forward(nb::module_& module) {
  using F = PythonForward;
  nb::class_<F>(module, "ForwardStatistics",
                "What a forward pass tells about its own rows: arrays [batch, num_heads, query_len], float32, of the query's "
                "kind; 0 for a row that sees no key.")
      .def_prop_ro(
          "entropy", [](const F& f) { return f.entropy; }, nb::sig("def entropy(self) -> typing.Any"),
          "-sum p ln p, nats, 0 … ln V(i)")
      .def_prop_ro(
          "max_probability", [](const F& f) { return f.max_probability; }, nb::sig("def max_probability(self) -> typing.Any"))
      .def_prop_ro(
          "effective_keys", [](const F& f) { return f.effective_keys; }, nb::sig("def effective_keys(self) -> typing.Any"),
          "(sum p)² / sum p², 1 … V(i)")
      .def_prop_ro(
          "mean_distance", [](const F& f) { return f.mean_distance; }, nb::sig("def mean_distance(self) -> typing.Any"),
          "sum p |d|, d the distance back from the row's position to the key");
  module.def(
      "attention_with_statistics", &python_forward, nb::arg("query").none(), nb::arg("key").none(), nb::arg("value").none(),
      nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("return_lse") = false, nb::arg("options"),
      nb::sig("def attention_with_statistics(query: Array, key: Array, value: Array, *, out: Array | None = None, "
              "return_lse: bool = False, " MULTIHEAD_OPTIONS ") -> typing.Any"),
      R"((output, ForwardStatistics), or (output, lse, ForwardStatistics) with return_lse: `attention`, with its bits, its arguments
and its errors, and statistics of its rows that ride along. V(i) is the number of keys that row i sees.

Cost: `attention` and a few additions a coefficient, where `statistics` computes all scores again. Sums are float32, over chunks
of keys: they agree with those of `statistics` to rounding. What the numbers mean: Clark et al. 2019 (1906.04341), Voita et al.
2019 (1905.09418), Vig & Belinkov 2019 (1906.04284).)");
}

// Python counts from the end with negative numbers, which a place in a list of heads is not meant to do.
std::size_t place_of(const HeadSimilarity& similarity, Index place, const char* name) {
  const auto count = static_cast<Index>(similarity.heads.size());
  if (place < 0 || place >= count) {
    throw InvalidArgument(at({"HeadSimilarity.cosine", name}, "expected a place in heads, 0 to " + std::to_string(count - 1) +
                                                                  "; got " + std::to_string(place)));
  }
  return static_cast<std::size_t>(place);
}

void add_similarity(nb::module_& module) {
  nb::class_<HeadSimilarity>(module, "HeadSimilarity", "How alike the maps of some heads are: see `head_similarity`.")
      .def_ro("heads", &HeadSimilarity::heads, "which heads; places below count in this list")
      .def_prop_ro(
          "gram",
          [](const HeadSimilarity& s) {
            const auto count = static_cast<Index>(s.heads.size());
            Tensor gram = Tensor::uninitialized(DType::kF64, {count, count});
            std::memcpy(gram.data<double>(), s.gram.data(), s.gram.size() * sizeof(double));
            return array_of(std::move(gram));
          },
          ARRAY("gram"), "[heads, heads] float64, symmetric: sum of p_a p_b over all pairs of query and key")
      .def(
          "cosine",
          [](const HeadSimilarity& s, Index a, Index b) { return s.cosine(place_of(s, a, "a"), place_of(s, b, "b")); },
          nb::arg("a"), nb::arg("b"),
          "gram[a, b] / sqrt(gram[a, a] gram[b, b]): 1 for equal maps, 0 when a map is empty. ValueError for a place that is "
          "not "
          "there.")
      .def("__repr__",
           [](const HeadSimilarity& s) { return "<HeadSimilarity of " + std::to_string(s.heads.size()) + " heads>"; });
  module.def(
      "head_similarity",
      [](const AttentionMap& map, nb::handle heads, nb::handle progress) {
        std::vector<Index> wanted;
        if (!heads.is_none()) wanted = indices_of(heads, {"head_similarity", "heads"});
        return PythonProgress(progress).run([&](const Progress& report) { return head_similarity(map, wanted, report); });
      },
      nb::arg("map"), nb::kw_only(), nb::arg("heads") = nb::none(), nb::arg("progress") = nb::none(),
      nb::sig("def head_similarity(map: AttentionMap, *, heads: collections.abc.Iterable[int] | None = None, "
              "progress: collections.abc.Callable[[float], bool | None] | None = None) -> HeadSimilarity"),
      R"(How alike the maps of some heads (None: all) are, over one batch entry: inner products over all coefficients.

heads     in the order of the result
progress  called with the share done, 0 … 1; False ends the work (Cancelled)

One sweep over all heads at once: heads · 2 · visible pairs · head_dim + heads² · pairs operations, on all threads; no coefficient
is stored. The diagonal is `HeadStatistics.squares`. Raises ValueError for a head that is not there.)");
}

}  // namespace

void add_statistics(nb::module_& module) {
  nb::class_<Measured>(module, "Measured", "A number, and what uniform attention over the same visible keys would give.")
      .def_ro("value", &Measured::value)
      .def_ro("uniform", &Measured::uniform)
      .def("__float__", [](const Measured& m) { return m.value; })
      .def("__repr__", [](const Measured& m) {
        return "Measured(" + std::to_string(m.value) + ", uniform=" + std::to_string(m.uniform) + ")";
      });
  auto type = nb::class_<HeadStatistics>(
      module, "HeadStatistics",
      "What one head does over one batch entry: per row (row_…, [query_len]), per key, and as a whole.");
  add_heads(type);
  add_rows(type);
  add_columns(type);
  module.def(
      "statistics", &python_statistics, nb::arg("map"), nb::kw_only(), nb::arg("heads") = nb::none(),
      nb::arg("offsets") = nb::none(), nb::arg("columns") = true, nb::arg("distance_profile") = true,
      nb::arg("histogram") = true, nb::arg("tokens") = true, nb::arg("values") = true, nb::arg("baselines") = true,
      nb::arg("progress") = nb::none(),
      nb::sig("def statistics(map: AttentionMap, *, heads: collections.abc.Iterable[int] | None = None, "
              "offsets: collections.abc.Iterable[int] | None = None, columns: bool = True, distance_profile: bool = True, "
              "histogram: bool = True, tokens: bool = True, values: bool = True, baselines: bool = True, "
              "progress: collections.abc.Callable[[float], bool | None] | None = None) -> list[HeadStatistics]"),
      R"(Statistics of some heads (None: all), streamed over coefficients that are recomputed and never stored.

offsets           distances whose mass is told; None: 0 (the token itself) and 1 (the previous one)
columns           attention received by each key
distance_profile  mass at every distance
histogram         of -log2 p (more than doubles the work)
tokens, values    what needs token labels or kept values, where the capture has them
baselines         what uniform attention would give
progress          called with the share done, 0 … 1; False ends the work (Cancelled)

2 · visible pairs · head_dim operations a head, on all threads; memory O((query_len + key_len) · head_dim).)");
  add_forward(module);
  add_similarity(module);
}

}  // namespace multihead::python
