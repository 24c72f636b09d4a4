#include "map_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "map_lift.h"
#include "report.h"

namespace multihead::cli {
namespace {

using picture::CellKind;
using picture::ScaleKind;

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
void use_exact_bits(const AttentionMap& map, Index head, const Tile& tile, picture::Cells& cells) {
  for (Index i = tile.rows.begin; i < tile.rows.end; ++i) {
    const MapRow row = map.row(head, i);
    std::copy_n(row.probability.begin() + tile.keys.begin, tile.width,
                cells.values.begin() + (i - tile.rows.begin) * tile.width);
  }
}

std::string cell_text(const Tile& tile) {
  if (!is_pooled(tile)) return "each cell is one coefficient";
  const std::string size =
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
  const CaptureLabels& labels = capture.labels;
  std::string title = labels.layer >= 0 ? "Layer " + std::to_string(labels.layer) + ", head " : "Head ";
  title += std::to_string(head);
  if (capture.num_kv_heads() != capture.num_heads()) {
    title += " (key/value head " + std::to_string(head / (capture.num_heads() / capture.num_kv_heads())) + ")";
  }
  if (capture.batch() > 1) title += ", batch entry " + std::to_string(map.batch_entry());
  return title;
}

picture::Axis axis_of(const std::string& name, IndexRange range, Index length, const std::vector<std::string>& tokens) {
  picture::Axis axis{name, range.begin, range.end, {}, length};
  if (!tokens.empty()) axis.labels.assign(tokens.begin() + range.begin, tokens.begin() + axis.existing_end());
  return axis;
}

std::string scale_name(ScaleKind scale, const Tile& tile) {
  const std::string number = !is_pooled(tile) || tile.pooling == Pooling::kMax ? "p"
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

picture::Cells cells_of(const AttentionMap& map, Index head, const Tile& tile, ScaleKind scale, const Progress& progress) {
  picture::Cells cells{tile.height, tile.width, tile.log2, {}};
  for (const CellState state : tile.state) cells.kinds.push_back(kind_of(state));
  if (scale == ScaleKind::kLift) cells.values = lift_of(map, head, tile, progress);
  if (scale == ScaleKind::kLinear) {
    for (float& value : cells.values) value = std::exp2(value);
    if (!is_pooled(tile)) use_exact_bits(map, head, tile, cells);
  }
  return cells;
}

picture::Figure figure_of(const AttentionMap& map, const MapOptions& options, const Tile& tile, picture::Cells cells) {
  const Capture& capture = map.capture();
  const CaptureLabels& labels = capture.labels;
  picture::Figure figure;
  figure.title = title_of(map, *options.head);
  std::string origin = labels.model;
  if (!labels.name.empty()) origin += (origin.empty() ? "" : ", ") + labels.name;
  if (!origin.empty()) figure.notes.push_back(origin);
  figure.notes.push_back(grouped(map.query_len()) + " queries × " + grouped(map.key_len()) + " keys" +
                         visibility_text(capture.options));
  figure.rows = axis_of("query", tile.rows, map.query_len(), labels.query_tokens);
  figure.keys = axis_of("key", tile.keys, map.key_len(), labels.key_tokens);
  figure.scale = {options.scale, options.domain ? *options.domain : picture::domain_for(options.scale, cells)};
  figure.scale_name = scale_name(options.scale, tile);
  figure.notes.push_back(cell_text(tile) + "; colours from " + picture::label_of(options.scale, figure.scale.domain.low) +
                         " to " + picture::label_of(options.scale, figure.scale.domain.high));
  figure.plot_size = options.size.value_or(figure.plot_size);
  figure.text_size = options.text_size.value_or(figure.text_size);
  figure.cells = std::move(cells);
  return figure;
}

Tensor values_of(const picture::Cells& cells) {
  Tensor values = Tensor::uninitialized(DType::kF32, {cells.height, cells.width});
  float* to = values.data<float>();
  for (std::size_t i = 0; i < cells.values.size(); ++i) {
    to[i] = cells.values[i];
    if (cells.kinds[i] == CellKind::kNonFinite) to[i] = std::numeric_limits<float>::infinity();
    if (cells.kinds[i] == CellKind::kMasked || cells.kinds[i] == CellKind::kOutside) to[i] = std::nanf("");
  }
  return values;
}

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

}  // namespace multihead::cli
