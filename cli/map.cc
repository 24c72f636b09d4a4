// multihead map: the coefficients of one head as a picture, as numbers, or in the terminal.
#include <algorithm>
#include <chrono>
#include <memory>

#include "command.h"
#include "map_figure.h"
#include "map_options.h"
#include "multihead/io.h"
#include "options.h"
#include "outputs.h"
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

// A map with what is drawn of it at some resolution.
struct Drawing {
  Tile tile;
  picture::Figure figure;
};

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

void print_terminal(const AttentionMap& map, const MapOptions& options) {
  const picture::TerminalStyle style = style_of_standard_output();
  const Index most_cells = std::min(options.size.value_or(256), picture::cells_across(style, map.query_len()));
  const Drawing drawing = draw(map, options, most_cells);
  print(picture::render_terminal(drawing.figure, style) + pairs_text(map, *options.head, drawing));
}

void add_range(const std::string& name, const picture::Axis& axis, Report& report) {
  report.add(name, grouped(axis.begin) + " to " + grouped(axis.existing_end() - 1), Json{axis.begin, axis.existing_end()});
}

void add_facts(const Drawing& drawing, const MapOptions& options, double seconds, Report& report) {
  const Tile& tile = drawing.tile;
  const picture::Figure& figure = drawing.figure;
  report.set("command", "map");
  report.add("map", figure.title, *options.head);
  add_range("rows", figure.rows, report);
  add_range("keys", figure.keys, report);
  report.add("cells", grouped(tile.height) + " x " + grouped(tile.width) + ": " + figure.notes.back(),
             Json{tile.height, tile.width});
  const picture::Domain domain = figure.scale.domain;
  report.add("scale",
             figure.scale_name + ", colours from " + picture::label_of(figure.scale.kind, domain.low) + " to " +
                 picture::label_of(figure.scale.kind, domain.high),
             Json{domain.low, domain.high});
  const picture::Census census = picture::census_of(figure.scale, figure.cells);
  std::string text;
  Json counts = Json::object();
  for (const picture::CellKind kind : picture::kCellKinds) {
    const Index count = census.of_kind[static_cast<std::size_t>(kind)];
    counts[std::string(name_of(kind))] = count;
    if (count > 0) text += (text.empty() ? "" : ", ") + grouped(count) + " " + std::string(name_of(kind));
  }
  report.add("counts", text, counts);
  report.add("time", seconds_text(seconds), seconds);
  report.add("written", options.output->string(), options.output->string());
}

AttentionMap open_map(const MapOptions& options) {
  AttentionMap map(std::make_shared<const Capture>(load_capture(*options.capture)), options.batch.value_or(0));
  if (*options.head >= map.num_heads()) {
    throw InvalidArgument("--head: expected 0 to " + std::to_string(map.num_heads() - 1) + "; got " +
                          std::to_string(*options.head));
  }
  return map;
}

void draw_map(const MapOptions& options) {
  if (!options.output && !options.terminal) throw usage_error("expected --output PATH or --terminal");
  if (options.json && !options.output) throw usage_error("--json tells about a file: expected --output PATH");
  OutputFiles files;
  files.add_input("CAPTURE", *options.capture);
  if (options.output) {
    file_kind(*options.output);
    files.add("output", *options.output);
  }
  files.check();
  options.machine.apply();
  const AttentionMap map = open_map(options);
  if (options.terminal && !options.json) print_terminal(map, options);
  if (!options.output) return;
  const auto start = std::chrono::steady_clock::now();
  const Drawing drawing = draw(map, options, options.size.value_or(768));
  write_drawing(drawing, *options.output);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Report report;
  add_facts(drawing, options, seconds, report);
  report.print(options.json);
}

}  // namespace

void add_map(CLI::App& app) {
  auto* command = app.add_subcommand("map", "Picture of one head's coefficients, from a capture");
  auto options = std::make_shared<MapOptions>();
  add_map_options(*command, *options);
  command->footer(
      "A map larger than --size is pooled into square cells; nothing of it is stored. In .npy, NaN is masked and inf not "
      "finite.\n"
      "Example:\n  multihead map layer3.safetensors --head 5 --rows 0:512 --keys 0:512 --scale lift --output head5.png");
  command->callback([options] { draw_map(*options); });
}

}  // namespace multihead::cli
