// multihead map: the coefficients of one head as a picture, as numbers, or in the terminal.
#include <chrono>
#include <memory>

#include "command.h"
#include "map_drawing.h"
#include "options.h"
#include "outputs.h"
#include "report.h"

namespace multihead::cli {
namespace {

void add_range(const std::string& name, const picture::Axis& axis, Report& report) {
  report.add(name, grouped(axis.begin) + " to " + grouped(axis.existing_end() - 1), Json{axis.begin, axis.existing_end()});
}

void add_facts(const picture::MapFigure& drawing, const MapOptions& options, double seconds, Report& report) {
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
    check_drawing_name(*options.output);
    files.add("output", *options.output);
  }
  files.check();
  options.machine.apply();
  const AttentionMap map = open_map(options);
  if (options.terminal && !options.json) print(terminal_text(map, options));
  if (!options.output) return;
  const auto start = std::chrono::steady_clock::now();
  const picture::MapFigure drawing = draw(map, options, options.size.value_or(768));
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
