#include "picture/map_figure.h"

#include <algorithm>
#include <cmath>

#include "picture/map_lift.h"

namespace multihead::picture {
namespace {

CellKind kind_of(CellState state) {
  switch (state) {
    case CellState::kValue:
      return CellKind::kValue;
    case CellState::kMasked:
      return CellKind::kMasked;
    case CellState::kOutside:
      return CellKind::kOutside;
    case CellState::kNonFinite:
      return CellKind::kNonFinite;
  }
  return CellKind::kOutside;
}

// "4", or "4 or 5" where cells differ by one.
std::string extent_text(Index positions, Index cells) {
  const std::string least = std::to_string(positions / cells);
  return positions % cells == 0 ? least : least + " or " + std::to_string(positions / cells + 1);
}

bool is_pooled(const Tile& tile) { return tile.height < tile.rows.size() || tile.width < tile.keys.size(); }

// Coefficients as the kernel had them: going through log2 p and back would move their last bits.
void use_exact_bits(const AttentionMap& map, Index head, const Tile& tile, Cells& cells) {
  for (Index i = tile.rows.begin; i < tile.rows.end; ++i) {
    const MapRow row = map.row(head, i);
    std::copy_n(row.probability.begin() + tile.keys.begin, tile.width,
                cells.values.begin() + (i - tile.rows.begin) * tile.width);
  }
}

std::string pooled_text(const Tile& tile) {
  if (!is_pooled(tile)) return "each cell is one coefficient";
  std::string size =
      extent_text(tile.rows.size(), tile.height) + " queries × " + extent_text(tile.keys.size(), tile.width) + " keys";
  switch (tile.pooling) {
    case Pooling::kMax:
      return "each cell is the largest of " + size;
    case Pooling::kMean:
      return "each cell is the mean over the visible pairs of " + size;
    case Pooling::kMass:
      return "each cell is the sum over keys, averaged over queries, of " + size;
  }
  return size;
}

std::string cell_text(const Tile& tile) {
  if (!tile.sampled || tile.sample_step == 1) return pooled_text(tile);
  const std::string step = grouped(tile.sample_step);
  return pooled_text(tile) + ", estimated from one query in " + step + " and one key in " + step;
}

std::string visibility_text(const AttentionOptions& options) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += ", " + word; };
  if (options.causal) add("causal");
  if (options.window) {
    const auto side = [](const std::optional<Index>& distance) { return distance ? grouped(*distance) : std::string("all"); };
    add("window " + side(options.window->left) + " left, " + side(options.window->right) + " right");
  }
  if (options.mask) add("mask");
  if (options.attention_bias) add("bias");
  if (!options.alibi_slopes.empty()) add("ALiBi");
  if (options.packed) add("packed sequences");
  return text;
}

std::string title_of(const AttentionMap& map, Index head) {
  const Capture& capture = map.capture();
  std::string text = "head " + std::to_string(head);
  if (capture.num_kv_heads() != capture.num_heads()) {
    text += " (key/value head " + std::to_string(head / (capture.num_heads() / capture.num_kv_heads())) + ")";
  }
  return title_around(map, text);
}

Axis axis_of(const std::string& name, IndexRange range, Index length, std::span<const std::string> tokens) {
  Axis axis{name, range.begin, range.end, {}, length};
  if (!tokens.empty()) axis.labels.assign(tokens.begin() + range.begin, tokens.begin() + axis.existing_end());
  return axis;
}

std::string scale_name(ScaleKind scale, const Tile& tile) {
  std::string number = !is_pooled(tile) || tile.pooling == Pooling::kMax ? "p"
                       : tile.pooling == Pooling::kMean                  ? "mean p"
                                                                         : "mass";
  switch (scale) {
    case ScaleKind::kLinear:
      return number;
    case ScaleKind::kLog:
      return "log₂ " + (number == "p" ? number : "(" + number + ")");
    case ScaleKind::kLift:
      return "log₂ of " + number + " over even attention: 0 = even";
  }
  return "";
}

}  // namespace

Index cell_side(const MapView& view) {
  return (std::max(view.rows.size(), view.keys.size()) + view.most_cells - 1) / view.most_cells;
}

// Square cells of k x k coefficients. A range that ends with the map is filled up to whole cells, which takes nothing in; any
// other keeps its end, and its cells may differ by one.
Tile tile_of(const AttentionMap& map, const MapView& view, const Progress& progress) {
  const Index k = cell_side(view);
  const auto filled = [k](IndexRange range, Index length) {
    if (range.end == length) range.end = range.begin + (range.size() + k - 1) / k * k;
    return range;
  };
  const IndexRange rows = filled(view.rows, map.query_len()), keys = filled(view.keys, map.key_len());
  const TileRequest request{rows, keys, std::max<Index>(1, rows.size() / k), std::max<Index>(1, keys.size() / k), view.pooling};
  return view.sample_step > 1 ? map.sampled_tile(view.head, request, view.sample_step) : map.tile(view.head, request, progress);
}

Cells cells_of(const AttentionMap& map, Index head, const Tile& tile, ScaleKind scale, const Progress& progress) {
  Cells cells{tile.height, tile.width, tile.log2, {}};
  for (const CellState state : tile.state) cells.kinds.push_back(kind_of(state));
  if (scale == ScaleKind::kLift) cells.values = lift_of(map, head, tile, progress);
  if (scale == ScaleKind::kLinear) {
    for (float& value : cells.values) value = std::exp2(value);
    if (!is_pooled(tile)) use_exact_bits(map, head, tile, cells);
  }
  return cells;
}

Figure figure_of(const AttentionMap& map, const MapView& view, const Tile& tile, Cells cells) {
  const Capture& capture = map.capture();
  const CaptureLabels& labels = capture.labels;
  Figure figure;
  figure.title = title_of(map, view.head);
  std::string origin = labels.model;
  if (!labels.name.empty()) origin += (origin.empty() ? "" : ", ") + labels.name;
  if (!origin.empty()) figure.notes.push_back(origin);
  figure.notes.push_back(grouped(map.query_len()) + (map.query_len() == 1 ? " query × " : " queries × ") +
                         grouped(map.key_len()) + (map.key_len() == 1 ? " key" : " keys") + visibility_text(capture.options));
  figure.rows = axis_of("query", tile.rows, map.query_len(), map.query_tokens());
  figure.keys = axis_of("key", tile.keys, map.key_len(), map.key_tokens());
  figure.scale = {view.scale, view.domain ? *view.domain : domain_for(view.scale, cells)};
  figure.scale_name = scale_name(view.scale, tile);
  figure.notes.push_back(cell_text(tile) + "; colours from " + label_of(view.scale, figure.scale.domain.low) + " to " +
                         label_of(view.scale, figure.scale.domain.high));
  figure.plot_size = view.size;
  figure.text_size = view.text_size;
  figure.cells = std::move(cells);
  return figure;
}

MapFigure draw(const AttentionMap& map, const MapView& view, const Progress& progress) {
  const bool is_swept_twice = view.scale == ScaleKind::kLift && view.pooling != Pooling::kMax;
  MapFigure drawn;
  drawn.tile = tile_of(map, view, part_of(progress, 0, is_swept_twice ? 0.5 : 1));
  Cells cells = cells_of(map, view.head, drawn.tile, view.scale, part_of(progress, 0.5, 1));
  drawn.figure = figure_of(map, view, drawn.tile, std::move(cells));
  return drawn;
}

std::string title_around(const AttentionMap& map, const std::string& heads) {
  const Capture& capture = map.capture();
  std::string title = heads;
  if (capture.labels.layer >= 0) {
    title = "Layer " + std::to_string(capture.labels.layer) + ", " + heads;
  } else if (title.compare(0, 4, "head") == 0) {
    title[0] = 'H';
  }
  if (capture.batch() > 1) title += ", batch entry " + std::to_string(map.batch_entry());
  return title;
}

Progress part_of(const Progress& whole, double begin, double end) {
  if (!whole) return {};
  return [&whole, begin, end](double done) { return whole(begin + done * (end - begin)); };
}

}  // namespace multihead::picture
