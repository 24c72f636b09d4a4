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
}

}  // namespace multihead::python
