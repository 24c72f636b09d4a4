#include "map_drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "multihead/io.h"
#include "options.h"
#include "picture/write_file.h"
#include "progress_line.h"
#include "report.h"
#include "terminal_style.h"

namespace multihead::cli {
namespace {

enum class FileKind { kPng, kSvg, kNpy };

FileKind file_kind(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".png") return FileKind::kPng;
  if (extension == ".svg") return FileKind::kSvg;
  if (extension == ".npy") return FileKind::kNpy;
  throw usage_error("--output: expected a name that ends in .png, .svg or .npy; got '" + path.string() + "'");
}

picture::MapView view_of(const AttentionMap& map, const MapOptions& options, Index most_cells) {
  picture::MapView view;
  view.head = *options.head;
  view.rows = options.rows.within("--rows", map.query_len());
  view.keys = options.keys.within("--keys", map.key_len());
  view.pooling = options.pooling;
  view.scale = options.scale;
  view.domain = options.domain;
  view.size = options.size.value_or(view.size);
  view.text_size = options.text_size.value_or(view.text_size);
  view.most_cells = most_cells;
  return view;
}

// [height, width] f32 in units of the scale. NaN where the query may not see any key of the cell, +inf where a coefficient is
// not finite: neither can be confused with a number of the scale.
Tensor values_of(const picture::Cells& cells) {
  Tensor values = Tensor::uninitialized(DType::kF32, {cells.height, cells.width});
  auto* to = values.data<float>();
  for (std::size_t i = 0; i < cells.values.size(); ++i) {
    to[i] = cells.values[i];
    if (cells.kinds[i] == picture::CellKind::kNonFinite) to[i] = std::numeric_limits<float>::infinity();
    if (cells.kinds[i] == picture::CellKind::kMasked || cells.kinds[i] == picture::CellKind::kOutside) to[i] = std::nanf("");
  }
  return values;
}

// A pair of a map that stands out.
struct TopPair {
  Index query = 0, key = 0;
  double probability = 0;
};

// The largest coefficients of up to `count` different cells, largest first, equal ones by place. Rows that see one key only,
// whose coefficient is 1 whatever the head does, are left out.
std::vector<TopPair> top_pairs(const AttentionMap& map, Index head, const Tile& tile, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tile.state.size(); ++i) {
    if (tile.state[i] == CellState::kValue && map.visible_keys(head, tile.max_row[i]) > 1) order.push_back(i);
  }
  const auto first = [&tile](std::size_t a, std::size_t b) {
    return std::tuple(-tile.max_log2[a], tile.max_row[a], tile.max_key[a]) <
           std::tuple(-tile.max_log2[b], tile.max_row[b], tile.max_key[b]);
  };
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), first);
  std::vector<TopPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t cell = order[i];
    pairs.push_back({tile.max_row[cell], tile.max_key[cell], std::exp2(static_cast<double>(tile.max_log2[cell]))});
  }
  return pairs;
}

std::string token_text(const picture::Axis& axis, Index position) {
  if (axis.labels.empty()) return "";
  return picture::shortened(axis.labels[static_cast<std::size_t>(position - axis.begin)], 20);
}

std::string pairs_text(const AttentionMap& map, Index head, const picture::MapFigure& drawing) {
  constexpr std::size_t kPairs = 5;
  const std::vector<TopPair> pairs = top_pairs(map, head, drawing.tile, kPairs);
  if (pairs.empty()) return "";
  const picture::Figure& figure = drawing.figure;
  const bool has_tokens = !figure.rows.labels.empty() || !figure.keys.labels.empty();
  Table table =
      has_tokens ? Table({{"largest", Table::Align::kRight},
                          {"query", Table::Align::kRight},
                          {"key", Table::Align::kRight},
                          {"query token"},
                          {"key token"}})
                 : Table({{"largest", Table::Align::kRight}, {"query", Table::Align::kRight}, {"key", Table::Align::kRight}});
  for (const TopPair& pair : pairs) {
    std::vector<std::string> row{formatted("%.4f", pair.probability), grouped(pair.query), grouped(pair.key)};
    if (has_tokens) row.insert(row.end(), {token_text(figure.rows, pair.query), token_text(figure.keys, pair.key)});
    table.add_row(row);
  }
  return "\n" + table.text();
}

}  // namespace

picture::MapFigure draw(const AttentionMap& map, const MapOptions& options, Index most_cells) {
  ProgressLine line("computing the map");
  const Progress report = line.callback();
  return picture::draw(map, view_of(map, options, most_cells), report);
}

void write_drawing(const picture::MapFigure& drawing, const std::filesystem::path& path) {
  const picture::Figure& figure = drawing.figure;
  switch (file_kind(path)) {
    case FileKind::kPng:
      return picture::write_file(path, picture::render_png(figure));
    case FileKind::kSvg:
      return picture::write_file(path, picture::render_svg(figure));
    case FileKind::kNpy:
      return write_npy(path, values_of(figure.cells));
  }
}

void check_drawing_name(const std::filesystem::path& path) { file_kind(path); }

std::string terminal_text(const AttentionMap& map, const MapOptions& options) {
  const picture::TerminalStyle style = style_of_standard_output();
  const Index most_cells = std::min(options.size.value_or(256), picture::cells_across(style, map.query_len()));
  const picture::MapFigure drawing = draw(map, options, most_cells);
  return picture::render_terminal(drawing.figure, style) + pairs_text(map, *options.head, drawing);
}

}  // namespace multihead::cli
