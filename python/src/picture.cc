#include "picture.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>

#include "array.h"
#include "attention_map.h"
#include "module.h"
#include "options.h"
#include "picture/map_sheet.h"
#include "progress.h"

namespace multihead::python {
namespace {

constexpr const char* kFunction = "AttentionMap.picture";
constexpr Index kSmallest = 16, kLargest = 8192;

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

picture::ScaleKind scale_of(const std::string& name) {
  if (name == "linear") return picture::ScaleKind::kLinear;
  if (name == "log") return picture::ScaleKind::kLog;
  if (name == "lift") return picture::ScaleKind::kLift;
  throw InvalidArgument(at({kFunction, "scale"}, "expected 'linear', 'log' or 'lift'; got '" + name + "'"));
}

std::optional<picture::Domain> domain_of(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  const Where where{kFunction, "domain"};
  const std::vector<float> ends = floats_of(value, where);
  if (ends.size() != 2) throw nb::type_error(at(where, "expected (low, high) or None").c_str());
  if (!std::isfinite(ends[0]) || !std::isfinite(ends[1]) || ends[0] >= ends[1]) {
    throw InvalidArgument(
        at(where, "expected two numbers, the second larger; got " + std::to_string(ends[0]) + ", " + std::to_string(ends[1])));
  }
  return picture::Domain{ends[0], ends[1]};
}

IndexRange part_of(nb::handle value, const char* name, Index length) {
  const IndexRange range = range_of(value, {kFunction, name}, length);
  if (range.begin < 0 || range.begin >= range.end || range.end > length) {
    throw InvalidArgument(at({kFunction, name}, "expected a part of (0, " + std::to_string(length) + "); got (" +
                                                    std::to_string(range.begin) + ", " + std::to_string(range.end) + ")"));
  }
  return range;
}

Index size_of(nb::handle value, Index otherwise) {
  if (value.is_none()) return otherwise;
  const Index size = index_of(value, {kFunction, "size"});
  if (size < kSmallest || size > kLargest) {
    throw InvalidArgument(at({kFunction, "size"}, "expected " + std::to_string(kSmallest) + " to " + std::to_string(kLargest) +
                                                      " pixels; got " + std::to_string(size)));
  }
  return size;
}

nb::bytes python_picture(const AttentionMap& map, nb::handle head, nb::handle rows, nb::handle keys, const std::string& pooling,
                         const std::string& scale, nb::handle domain, nb::handle size, nb::handle progress) {
  picture::MapView view;
  view.rows = part_of(rows, "rows", map.query_len());
  view.keys = part_of(keys, "keys", map.key_len());
  view.pooling = pooling_of(pooling, kFunction);
  view.scale = scale_of(scale);
  view.domain = domain_of(domain);
  if (!head.is_none()) {
    view.head = index_of(head, {kFunction, "head"});
    if (view.head < 0 || view.head >= map.num_heads()) {
      throw InvalidArgument(at({kFunction, "head"},
                               "expected 0 to " + std::to_string(map.num_heads() - 1) + "; got " + std::to_string(view.head)));
    }
  }
  view.size = view.most_cells = size_of(size, head.is_none() ? picture::panel_size_for(map.num_heads()) : view.size);
  const std::string png = PythonProgress(progress).run([&](const Progress& report) {
    return head.is_none() ? render_png(picture::draw_heads(map, view, report))
                          : render_png(picture::draw(map, view, report).figure);
  });
  return bytes_of(png);
}

}  // namespace

nb::object notebook_picture(const AttentionMap& map) {
  if (map.num_heads() == 0 || map.query_len() == 0 || map.key_len() == 0) return nb::none();
  picture::MapView view;
  view.rows = {0, map.query_len()};
  view.keys = {0, map.key_len()};
  view.size = view.most_cells = picture::panel_size_for(map.num_heads());
  view.sample_step = picture::quick_step(map, view, map.num_heads());
  const std::string png = PythonProgress(nb::none()).run([&](const Progress& report) {
    return render_png(picture::draw_heads(map, view, report));
  });
  return bytes_of(png);
}

void add_picture(nb::class_<AttentionMap>& type) {
  type.def("picture", &python_picture, nb::arg("head") = nb::none(), nb::kw_only(), nb::arg("rows") = nb::none(),
           nb::arg("keys") = nb::none(), nb::arg("pooling") = "max", nb::arg("scale") = "log", nb::arg("domain") = nb::none(),
           nb::arg("size") = nb::none(), nb::arg("progress") = nb::none(),
           nb::sig("def picture(self, head: int | None = None, *, rows: tuple[int, int] | None = None, "
                   "keys: tuple[int, int] | None = None, pooling: str = 'max', scale: str = 'log', "
                   "domain: tuple[float, float] | None = None, size: int | None = None, "
                   "progress: collections.abc.Callable[[float], bool | None] | None = None) -> bytes"),
           R"(A PNG file's bytes: one head as `multihead map` draws it, or all heads (None) side by side on one scale.

rows, keys  [begin, end), None for all
pooling     what a cell of many coefficients shows: "max", "mean" (over visible pairs) or "mass" (summed over keys, averaged
            over rows)
scale       "linear" (p), "log" (log2 p) or "lift" (log2 of p times the number of visible keys: 0 where attention is uniform)
domain      (low, high): numbers of the scale that get colours of their own; None: (0, 1) for "linear", else from the values
size        pixels and most cells of a map's longer side, 16 to 8192; None: 768, with all heads less for each
progress    called with the share done, 0 … 1; False ends the work (Cancelled)

A map larger than `size` is pooled into square cells, exactly. Tokens label the axes where they are known and fit; masked cells
are hatched, never a colour. The same map gives the same bytes. 2 · visible pairs · head_dim operations a head, on all threads;
memory for the cells alone. Raises ValueError for a head, part, scale or size that is not there, by the argument's name.)")
      .def(
          "_repr_png_", &notebook_picture, nb::sig("def _repr_png_(self) -> bytes | None"),
          "`picture()` for a notebook. A map that would take longer than a second or so is estimated from every n-th query and "
          "key, and the picture says so. None for a map without a coefficient.");
}

}  // namespace multihead::python
