#include "multihead/attention_map.h"

#include <Python.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "array.h"
#include "attention_map.h"
#include "module.h"
#include "options.h"
#include "picture.h"
#include "progress.h"

namespace multihead::python {

Progress PythonProgress::callback() {
  return [this](double done) {
    const nb::gil_scoped_acquire acquire;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      if (function_.is_none()) return true;
      const nb::object answer = function_(done);
      return answer.is_none() || nb::cast<bool>(nb::bool_(answer));
    } catch (nb::python_error& error) {
      error_.emplace(std::move(error));
      return false;
    }
  };
}

IndexRange range_of(nb::handle value, const Where& where, Index all) {
  if (value.is_none()) return {0, all};
  const std::vector<Index> ends = indices_of(value, where);
  if (ends.size() != 2) throw nb::type_error(at(where, "expected (begin, end) or None").c_str());
  return {ends[0], ends[1]};
}

Pooling pooling_of(const std::string& name, const char* function) {
  if (name == "max") return Pooling::kMax;
  if (name == "mean") return Pooling::kMean;
  if (name == "mass") return Pooling::kMass;
  throw InvalidArgument(at({function, "pooling"}, "expected 'max', 'mean' or 'mass'; got '" + name + "'"));
}

namespace {

template <typename T>
nb::object array_of(const std::vector<T>& values, const Dims& shape) {
  Tensor tensor = Tensor::uninitialized(dtype_of<T>, shape);
  std::memcpy(tensor.template data<T>(), values.data(), values.size() * sizeof(T));
  return python::array_of(std::move(tensor));
}

nb::object array_of(const std::vector<CellState>& values, const Dims& shape) {
  Tensor tensor = Tensor::uninitialized(DType::kU8, shape);
  std::memcpy(tensor.data<std::uint8_t>(), values.data(), values.size());
  return python::array_of(std::move(tensor));
}

std::vector<std::string> list_of(std::span<const std::string> tokens) { return {tokens.begin(), tokens.end()}; }

nb::object range(const IndexRange& r) { return nb::make_tuple(r.begin, r.end); }

Tile python_tile(const AttentionMap& map, Index head, nb::handle rows, nb::handle keys, nb::handle height, nb::handle width,
                 const std::string& pooling, nb::handle progress) {
  const char* function = "AttentionMap.tile";
  TileRequest request;
  request.rows = range_of(rows, {function, "rows"}, map.query_len());
  request.keys = range_of(keys, {function, "keys"}, map.key_len());
  request.height = height.is_none() ? std::min(kTileCells, request.rows.size()) : index_of(height, {function, "height"});
  request.width = width.is_none() ? std::min(kTileCells, request.keys.size()) : index_of(width, {function, "width"});
  request.pooling = pooling_of(pooling, function);
  return PythonProgress(progress).run([&](const Progress& report) { return map.tile(head, request, report); });
}

void add_cells(nb::module_& module) {
  nb::enum_<CellState>(module, "CellState", nb::is_arithmetic(), "What a cell is, before its number: masked is not zero.")
      .value("VALUE", CellState::kValue, "the number counts")
      .value("MASKED", CellState::kMasked, "no visible pair in the cell")
      .value("OUTSIDE", CellState::kOutside, "beyond the map's last row or column")
      .value("NON_FINITE", CellState::kNonFinite, "some visible coefficient is NaN or infinite");
  nb::class_<TopKey>(module, "TopKey", "One of a row's largest coefficients.")
      .def_ro("key", &TopKey::key)
      .def_ro("probability", &TopKey::probability)
      .def_ro("log2", &TopKey::log2)
      .def("__repr__", [](const TopKey& top) {
        return "TopKey(key=" + std::to_string(top.key) + ", probability=" + std::to_string(top.probability) + ")";
      });
  nb::class_<Coefficient>(module, "Coefficient", "One coefficient: its probability, exact log2, and whether it is visible.")
      .def_ro("probability", &Coefficient::probability)
      .def_ro("log2", &Coefficient::log2)
      .def_ro("state", &Coefficient::state);
  const auto cells = nb::sig("def log2(self) -> numpy.ndarray");
  nb::class_<Tile>(module, "Tile", "A rectangle of a map, in cells [height, width].")
      .def_prop_ro(
          "rows", [](const Tile& t) { return range(t.rows); }, nb::sig("def rows(self) -> tuple[int, int]"))
      .def_prop_ro(
          "keys", [](const Tile& t) { return range(t.keys); }, nb::sig("def keys(self) -> tuple[int, int]"))
      .def_ro("height", &Tile::height)
      .def_ro("width", &Tile::width)
      .def_prop_ro(
          "log2",
          [](const Tile& t) {
            return array_of(t.log2, {t.height, t.width});
          },
          cells, "log2 of the pooled number, float32")
      .def_prop_ro(
          "state",
          [](const Tile& t) {
            return array_of(t.state, {t.height, t.width});
          },
          nb::sig("def state(self) -> numpy.ndarray"), "CellState numbers, uint8")
      .def_prop_ro(
          "max_log2",
          [](const Tile& t) {
            return array_of(t.max_log2, {t.height, t.width});
          },
          nb::sig("def max_log2(self) -> numpy.ndarray"), "the cell's largest coefficient, whatever the pooling")
      .def_prop_ro(
          "max_row",
          [](const Tile& t) {
            return array_of(t.max_row, {t.height, t.width});
          },
          nb::sig("def max_row(self) -> numpy.ndarray"), "where it is; -1 when there is none")
      .def_prop_ro(
          "max_key",
          [](const Tile& t) {
            return array_of(t.max_key, {t.height, t.width});
          },
          nb::sig("def max_key(self) -> numpy.ndarray"));
}

}  // namespace

void add_attention_map(nb::module_& module) {
  add_cells(module);
  auto type = nb::class_<AttentionMap>(
      module, "AttentionMap",
      R"(The maps of one batch entry of a capture, [query_len, key_len] for each query head: coefficients that nobody stored,
recomputed when somebody asks, with the bits of the call. Row i = query, column j = key. Copies nothing of the capture. A
notebook shows all heads as a picture.)");
  type.def(nb::init<std::shared_ptr<const Capture>, Index>(), nb::arg("capture"), nb::arg("batch") = 0,
           nb::sig("def __init__(self, capture: Capture, batch: int = 0) -> None"),
           "Raises InvalidArgument for an inconsistent capture or a batch entry that is not there.")
      .def_prop_ro("num_heads", &AttentionMap::num_heads)
      .def_prop_ro("query_len", &AttentionMap::query_len)
      .def_prop_ro("key_len", &AttentionMap::key_len)
      .def_prop_ro(
          "query_tokens", [](const AttentionMap& self) { return list_of(self.query_tokens()); },
          "labels of this entry's rows, or empty")
      .def_prop_ro(
          "key_tokens", [](const AttentionMap& self) { return list_of(self.key_tokens()); },
          "labels of this entry's keys, or empty")
      .def("visible", &AttentionMap::visible, nb::arg("head"), nb::arg("i"), nb::arg("j"), "Whether row i may see key j.")
      .def("visible_keys", &AttentionMap::visible_keys, nb::arg("head"), nb::arg("i"), "Number of keys that row i sees.")
      .def("at", &AttentionMap::at, nb::arg("head"), nb::arg("i"), nb::arg("j"), nb::call_guard<nb::gil_scoped_release>(),
           "One coefficient with its logarithm and state; some microseconds.")
      .def("probability", &AttentionMap::probability, nb::arg("head"), nb::arg("i"), nb::arg("j"),
           nb::call_guard<nb::gil_scoped_release>(), "One coefficient.")
      .def(
          "row",
          [](const AttentionMap& self, Index head, Index i) {
            const MapRow row = released([&] { return self.row(head, i); });
            return array_of(row.probability, {self.key_len()});
          },
          nb::arg("head"), nb::arg("i"), nb::sig("def row(self, head: int, i: int) -> numpy.ndarray"),
          "A row's coefficients, [key_len] float32, 0 where not visible.")
      .def(
          "top",
          [](const AttentionMap& self, Index head, Index i, Index k) {
            nb::list result;
            for (const TopKey& top : released([&] { return self.top(head, i, k); })) result.append(top);
            return result;
          },
          nb::arg("head"), nb::arg("i"), nb::arg("k") = 5,
          nb::sig("def top(self, head: int, i: int, k: int = 5) -> list[TopKey]"),
          "The k largest of a row, largest first (fewer when fewer are visible).")
      .def(
          "tile", &python_tile, nb::arg("head"), nb::kw_only(), nb::arg("rows") = nb::none(), nb::arg("keys") = nb::none(),
          nb::arg("height") = nb::none(), nb::arg("width") = nb::none(), nb::arg("pooling") = "max",
          nb::arg("progress") = nb::none(),
          nb::sig("def tile(self, head: int, *, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None, "
                  "height: int | None = None, width: int | None = None, pooling: str = 'max', "
                  "progress: collections.abc.Callable[[float], bool | None] | None = None) -> Tile"),
          R"(Any rectangle at any size: rows and keys [begin, end), None for all, in height x width cells, None for at most 256.

pooling   "max", "mean" (over the visible pairs of a cell) or "mass" (summed over keys, averaged over rows)
progress  called with the share done, 0 … 1; False ends the work (Cancelled)

2 · visible pairs · head_dim operations on all threads; memory for the cells alone.)");
  add_picture(type);
}

}  // namespace multihead::python
