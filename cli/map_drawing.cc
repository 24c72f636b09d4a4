#include "map_drawing.h"

#include <algorithm>

#include "map_figure.h"
#include "multihead/io.h"
#include "options.h"
#include "picture/png.h"
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

// Square cells of k x k coefficients, with k as small as `most_cells` on the longer side allows. A range that ends with the map
// is filled up to whole cells, which takes nothing in; any other keeps its end, and its cells may differ by one.
TileRequest request_for(const AttentionMap& map, IndexRange rows, IndexRange keys, Pooling pooling, Index most_cells) {
  const Index k = (std::max(rows.size(), keys.size()) + most_cells - 1) / most_cells;
  const auto fill = [k](IndexRange& range, Index length) {
    if (range.end == length) range.end = range.begin + (range.size() + k - 1) / k * k;
  };
  fill(rows, map.query_len());
  fill(keys, map.key_len());
  return {rows, keys, std::max<Index>(1, rows.size() / k), std::max<Index>(1, keys.size() / k), pooling};
}

std::string token_text(const picture::Axis& axis, Index position) {
  if (axis.labels.empty()) return "";
  return picture::shortened(axis.labels[static_cast<std::size_t>(position - axis.begin)], 20);
}

std::string pairs_text(const AttentionMap& map, Index head, const Drawing& drawing) {
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

Drawing draw(const AttentionMap& map, const MapOptions& options, Index most_cells) {
  const IndexRange rows = options.rows.within("--rows", map.query_len()), keys = options.keys.within("--keys", map.key_len());
  Drawing drawing;
  {
    ProgressLine line("computing the map");
    drawing.tile = map.tile(*options.head, request_for(map, rows, keys, options.pooling, most_cells), line.callback());
  }
  ProgressLine line("computing even attention");
  picture::Cells cells = cells_of(map, *options.head, drawing.tile, options.scale, line.callback());
  drawing.figure = figure_of(map, options, drawing.tile, std::move(cells));
  return drawing;
}

void write_drawing(const Drawing& drawing, const std::filesystem::path& path) {
  const picture::Figure& figure = drawing.figure;
  switch (file_kind(path)) {
    case FileKind::kPng: {
      picture::PngText text{{"Title", figure.title}, {"Software", "multihead"}};
      for (const std::string& note : figure.notes) text.emplace_back("Comment", note);
      return picture::write_png(path, picture::render_pixels(figure), text);
    }
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
  const Drawing drawing = draw(map, options, most_cells);
  return picture::render_terminal(drawing.figure, style) + pairs_text(map, *options.head, drawing);
}

}  // namespace multihead::cli
