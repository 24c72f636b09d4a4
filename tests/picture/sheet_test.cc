// Sheets: every panel shows its own cells in the shared colours, none touches another, and the words are all there.
#include "picture/sheet.h"

#include "multihead/error.h"
#include "picture/picture_testing.h"
#include "picture/png.h"
#include "random_inputs.h"

namespace multihead::picture_test {
namespace {

Sheet sheet_of(Index panels, Index height, Index width, Index plot_size) {
  test::Random random(7);
  Sheet sheet;
  for (Index i = 0; i < panels; ++i) {
    std::vector<float> values;
    for (Index n = 0; n < height * width; ++n) values.push_back(static_cast<float>(-9 * random.uniform()));
    Figure figure = figure_of(height, width, std::move(values), ScaleKind::kLog);
    for (std::size_t n = 0; n < figure.cells.kinds.size(); ++n) {
      if (n % 5 == 2) figure.cells.kinds[n] = kCellKinds[2 + n % 4];
    }
    sheet.panels.push_back({"head " + std::to_string(i), std::move(figure.cells)});
  }
  sheet.common = figure_of(0, 0, {}, ScaleKind::kLog);
  sheet.common.title = "All heads";
  sheet.common.rows = {"query", 0, height, {}};
  sheet.common.keys = {"key", 0, width, {}};
  sheet.common.scale.domain = {-6, -1};
  sheet.common.plot_size = plot_size;
  return sheet;
}

TEST(SheetColumns, FewEmptyPlacesAndWiderThanHigh) {
  for (const auto& [panels, columns] :
       {std::pair<Index, Index>{1, 1}, {2, 2}, {4, 2}, {7, 4}, {8, 4}, {12, 4}, {32, 8}, {64, 8}}) {
    EXPECT_EQ(columns_of(panels), columns) << panels;
  }
  for (Index panels = 1; panels < 200; ++panels) {
    const Index columns = columns_of(panels), rows = (panels + columns - 1) / columns;
    EXPECT_GE(columns, rows) << panels;
    EXPECT_LT(columns * rows - panels, columns) << panels;
  }
}

TEST(SheetPixels, EachPanelHasItsOwnCells) {
  for (const auto& [panels, height, width] : {std::tuple<Index, Index, Index>{1, 30, 30}, {5, 40, 25}, {6, 1, 60}}) {
    const Sheet sheet = sheet_of(panels, height, width, 120);
    const SheetLayout layout = layout_of(sheet);
    const Raster pixels = decoded(render_png(sheet));
    ASSERT_EQ(pixels.width(), layout.common.width);
    ASSERT_EQ(pixels.height(), layout.common.height);
    const auto cell_width = static_cast<Index>(layout.common.cell_width),
               cell_height = static_cast<Index>(layout.common.cell_height);
    for (std::size_t panel = 0; panel < sheet.panels.size(); ++panel) {
      const auto left = static_cast<Index>(layout.plots[panel].x), top = static_cast<Index>(layout.plots[panel].y);
      for (Index y = 0; y < cell_height * height; ++y) {
        for (Index x = 0; x < cell_width * width; ++x) {
          const Paint paint = paint_of(sheet.common.scale, sheet.panels[panel].cells, y / cell_height, x / cell_width);
          ASSERT_EQ(pixels.at(left + x, top + y), color_at(paint, left + x, top + y)) << "panel " << panel;
        }
      }
    }
  }
}

TEST(SheetLayout, PanelsStandApartAndInside) {
  for (const Index panels : {1, 2, 7, 32}) {
    const SheetLayout layout = layout_of(sheet_of(panels, 20, 30, 112));
    ASSERT_EQ(static_cast<Index>(layout.plots.size()), panels);
    for (std::size_t a = 0; a < layout.plots.size(); ++a) {
      const Box& box = layout.plots[a];
      EXPECT_GT(box.x, 0);
      EXPECT_LT(box.right(), layout.common.bar.x);
      EXPECT_LT(box.bottom(), static_cast<double>(layout.common.height));
      for (std::size_t b = 0; b < a; ++b) {
        const Box& other = layout.plots[b];
        const double apart = std::max(box.x - other.right(), std::max(other.x - box.right(), box.y - other.bottom()));
        EXPECT_GT(apart, layout.common.em / 2) << a << " and " << b;
      }
    }
  }
}

TEST(SheetPixels, TextStaysInside) {
  Sheet sheet = sheet_of(3, 12, 12, 112);
  sheet.common.title =
      "A title that is much longer than all panels of this sheet together are wide, and which must not be cut off";
  sheet.common.rows.labels = sheet.common.keys.labels = std::vector<std::string>(12, "a long token");
  sheet.common.text_size = 11;
  const Raster pixels = render_pixels(sheet);
  for (Index y = 0; y < pixels.height(); ++y) {
    for (const Index x : {Index{0}, pixels.width() - 1}) ASSERT_EQ(pixels.at(x, y), kWhite) << y;
  }
  for (Index x = 0; x < pixels.width(); ++x) {
    for (const Index y : {Index{0}, pixels.height() - 1}) ASSERT_EQ(pixels.at(x, y), kWhite) << x;
  }
}

TEST(SheetChecks, RefusesWhatDoesNotFit) {
  EXPECT_THROW(render_pixels(Sheet()), InvalidArgument);
  Sheet sheet = sheet_of(2, 3, 3, 112);
  sheet.panels[1].cells = sheet_of(1, 3, 4, 112).panels[0].cells;
  EXPECT_THROW(render_pixels(sheet), InvalidArgument);
  sheet = sheet_of(2, 3, 3, 112);
  sheet.common.rows.labels = {"one"};
  EXPECT_THROW(render_pixels(sheet), InvalidArgument);
}

}  // namespace
}  // namespace multihead::picture_test
