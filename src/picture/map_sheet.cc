#include "picture/map_sheet.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"

namespace multihead::picture {
namespace {

// All cells below each other: the shared domain is that of one tall map.
Cells stacked(const std::vector<Panel>& panels) {
  Cells all;
  all.width = panels.front().cells.width;
  for (const Panel& panel : panels) {
    all.height += panel.cells.height;
    all.values.insert(all.values.end(), panel.cells.values.begin(), panel.cells.values.end());
    all.kinds.insert(all.kinds.end(), panel.cells.kinds.begin(), panel.cells.kinds.end());
  }
  return all;
}

std::string title_of(const AttentionMap& map) {
  const Index heads = map.num_heads(), shared = map.capture().num_kv_heads();
  std::string text = std::to_string(heads) + (heads == 1 ? " head" : " heads");
  if (shared != heads) text += ", " + std::to_string(shared) + (shared == 1 ? " key/value head" : " key/value heads");
  return title_around(map, text);
}

}  // namespace

Sheet draw_heads(const AttentionMap& map, const MapView& view, const Progress& progress) {
  require(map.num_heads() > 0, "draw_heads: expected a map with heads; got none");
  Sheet sheet;
  MapView one = view;
  Tile tile;
  const auto heads = static_cast<double>(map.num_heads());
  for (one.head = 0; one.head < map.num_heads(); ++one.head) {
    const auto done = static_cast<double>(one.head);
    MapFigure drawn = draw(map, one, part_of(progress, done / heads, (done + 1) / heads));
    sheet.panels.push_back({"head " + std::to_string(one.head), std::move(drawn.figure.cells)});
    tile = std::move(drawn.tile);
  }
  if (!one.domain) one.domain = domain_for(one.scale, stacked(sheet.panels));
  one.head = 0;
  sheet.common = figure_of(map, one, tile, {});
  sheet.common.title = title_of(map);
  return sheet;
}

Index panel_size_for(Index heads) {
  constexpr Index kSheet = 960, kSmallest = 112, kLargest = 384;
  return std::clamp(kSheet / std::max<Index>(1, columns_of(heads)), kSmallest, kLargest);
}

Index quick_step(const AttentionMap& map, const MapView& view, Index heads) {
  constexpr double kOperations = 0x1p37;
  const double pairs = static_cast<double>(view.rows.size()) * static_cast<double>(view.keys.size());
  const double operations = 2 * pairs * static_cast<double>(map.capture().head_dim() * heads);
  const auto step = static_cast<Index>(std::ceil(std::sqrt(operations / kOperations)));
  return std::clamp<Index>(step, 1, cell_side(view));
}

}  // namespace multihead::picture
