#include "picture/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/message.h"
#include "io/text.h"

namespace multihead::picture {
namespace {

constexpr Index kCellsWithoutColors = 2;  // characters a cell: a character is about twice as high as wide
constexpr std::string_view kShades = ":-=+*#%@";
constexpr char32_t kFirstWide = 0x1100;  // from here on terminals may give a character two columns

Rgb color_of_256(int index) {
  if (index >= 232) {
    const auto grey = static_cast<std::uint8_t>(8 + 10 * (index - 232));
    return {grey, grey, grey};
  }
  constexpr std::array<std::uint8_t, 6> kLevels{0, 95, 135, 175, 215, 255};
  const auto at = [&](int i) { return kLevels[static_cast<std::size_t>(i % 6)]; };
  return {at((index - 16) / 36), at((index - 16) / 6), at(index - 16)};
}

std::size_t width_of(const std::string& text) { return characters_of(text).size(); }

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + text;
}

std::string line_of(const std::string& text, const TerminalStyle& style) {
  return shortened(text, static_cast<std::size_t>(std::max<Index>(style.columns, 2))) + "\n";
}

// Shades with eight steps, and a character for each cell without a number; two of each cell.
char shade_of(const Figure& figure, const Paint& paint, double value) {
  switch (paint.kind) {
    case CellKind::kValue:
      break;
    case CellKind::kBelow:
      return '.';
    case CellKind::kMasked:
    case CellKind::kOutside:
      return ' ';
    case CellKind::kPending:
      return '?';
    case CellKind::kNonFinite:
      return '!';
  }
  const auto [low, high] = figure.scale.domain;
  const double part = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 1;
  const auto last = static_cast<double>(kShades.size() - 1);
  return kShades[static_cast<std::size_t>(std::lround(part * last))];
}

class Painter {
 public:
  Painter(const Figure& figure, const TerminalStyle& style) : figure_(figure), style_(style) {}

  // A value's colour as it lies in the palette, or from the other end on a dark ground.
  Rgb shown(double value) const {
    const auto [low, high] = figure_.scale.domain;
    const Palette& palette = figure_.scale.palette();
    if (value > high) return style_.light_background ? palette.over() : kWhite;
    const double part = high > low ? (value - low) / (high - low) : 0.5;
    return palette.at(style_.light_background ? part : 1 - part);
  }

  // The characters of rows `top` and top + 1 (when there is one).
  std::string line(Index top) {
    std::string text;
    for (Index column = 0; column < figure_.cells.width; ++column) text += character(top, column);
    return text + reset();
  }

  std::string bar() {
    constexpr int kLength = 24;
    std::string text;
    for (int i = 0; i < kLength; ++i) {
      const auto [low, high] = figure_.scale.domain;
      text += foreground(shown(low + (high - low) * (i + 0.5) / kLength)) + "█";
    }
    return text + reset();
  }

 private:
  struct Half {
    bool painted = false;
    Rgb color;
    CellKind kind = CellKind::kOutside;
  };

  Half half(Index row, Index column) const {
    if (row >= figure_.cells.height) return {};
    const Paint paint = paint_of(figure_.scale, figure_.cells, row, column);
    if (paint.kind == CellKind::kValue) return {true, shown(figure_.cells.value(row, column)), paint.kind};
    if (paint.kind == CellKind::kNonFinite) return {true, {230, 40, 160}, paint.kind};
    return {false, {}, paint.kind};
  }

  // A block fills both cells, a half block one of them; a cell without a number is a sign on the terminal's own ground.
  std::string character(Index top, Index column) {
    const Half upper = half(top, column), lower = half(top + 1, column);
    if (upper.painted && lower.painted) return foreground(upper.color) + background(lower.color) + "▀";
    if (upper.painted) return foreground(upper.color) + background(std::nullopt) + "▀";
    if (lower.painted) return foreground(lower.color) + background(std::nullopt) + "▄";
    const std::string ground = foreground(std::nullopt) + background(std::nullopt);
    const CellKind kind = upper.kind == CellKind::kOutside ? lower.kind : upper.kind;
    switch (kind) {
      case CellKind::kBelow:
        return ground + "·";
      case CellKind::kMasked:
        return ground + "╱";
      case CellKind::kPending:
        return ground + "?";
      default:
        return ground + " ";
    }
  }

  std::string code(bool is_ground, Rgb color) const {
    const std::string kind = is_ground ? "48" : "38";
    if (style_.colors == TerminalColors::k256) return concat("\x1b[", kind, ";5;", nearest_of_256(color), "m");
    return concat("\x1b[", kind, ";2;", int{color.r}, ";", int{color.g}, ";", int{color.b}, "m");
  }

  // Only what changes is sent. No colour: the terminal's own.
  std::string foreground(std::optional<Rgb> color) {
    if (has_foreground_ && color == foreground_) return "";
    has_foreground_ = true;
    foreground_ = color;
    return color ? code(false, *color) : "\x1b[39m";
  }
  std::string background(std::optional<Rgb> color) {
    if (color == background_) return "";
    background_ = color;
    return color ? code(true, *color) : "\x1b[49m";
  }
  std::string reset() {
    has_foreground_ = false;
    background_.reset();
    return "\x1b[0m";
  }

  const Figure& figure_;
  const TerminalStyle& style_;
  bool has_foreground_ = false;
  std::optional<Rgb> foreground_, background_;
};

std::string plain_line(const Figure& figure, Index row) {
  std::string text;
  for (Index column = 0; column < figure.cells.width; ++column) {
    const Paint paint = paint_of(figure.scale, figure.cells, row, column);
    text += std::string(kCellsWithoutColors, shade_of(figure, paint, figure.cells.value(row, column)));
  }
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// What stands beside each cell of an axis: characters of a text, or nothing when the cells are not single positions, or most
// labels are words.
std::vector<std::string> letters_of(const Axis& axis, Index cells) {
  if (axis.labels.empty() || cells != axis.size() || cells != static_cast<Index>(axis.labels.size())) return {};
  std::vector<std::string> letters;
  Index words = 0;
  for (const std::string& label : axis.labels) {
    const std::u32string characters = characters_of(label);
    const bool is_single = characters.size() == 1 && characters.front() < kFirstWide;
    const bool is_control = is_single && (static_cast<unsigned char>(label.front()) < 0x20 || label.front() == 0x7F);
    letters.push_back(!is_single ? "~" : label == "\n" ? "↵" : is_control ? "?" : label);
    words += is_single ? 0 : 1;
  }
  return 4 * words <= cells ? letters : std::vector<std::string>();
}

// The characters of both sides, when both have some and they fit.
struct Letters {
  std::vector<std::string> rows, keys;

  Letters(const Figure& figure, const TerminalStyle& style, std::size_t taken)
      : rows(letters_of(figure.rows, figure.cells.height)), keys(letters_of(figure.keys, figure.cells.width)) {
    const std::size_t room = taken + gutter(style.colors);
    if (rows.empty() || keys.empty() || room > static_cast<std::size_t>(std::max<Index>(style.columns, 0))) {
      rows.clear();
      keys.clear();
    }
  }
  bool empty() const { return keys.empty(); }
  // Width of the rows' characters with the space behind them: a line shows two rows in colours, else one.
  static std::size_t gutter(TerminalColors colors) { return colors == TerminalColors::kNone ? 2 : 3; }

  std::string beside(Index row, Index count) const {
    if (empty()) return "";
    std::string text;
    for (Index n = row; n < row + count; ++n)
      text += n < static_cast<Index>(rows.size()) ? rows[static_cast<std::size_t>(n)] : " ";
    return text + " ";
  }
  std::string above(Index cell_width) const {
    std::string text;
    for (const std::string& letter : keys) text += letter + std::string(static_cast<std::size_t>(cell_width) - 1, ' ');
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
};

Index first_position(const Axis& axis, Index cell, Index cells) { return axis.begin + cell * axis.size() / cells; }

// Positions of the first and the last column's keys above the map.
std::string key_line(const Figure& figure, std::size_t label_width, std::size_t map_width) {
  const std::string first = figure.keys.name + " " + grouped(figure.keys.begin), last = grouped(figure.keys.existing_end() - 1);
  const std::string indent(label_width + 1, ' ');
  if (first.size() + last.size() + 1 > map_width) return indent + first + "\n";
  return indent + first + padded_left(last, map_width - first.size()) + "\n";
}

std::string scale_line(const Figure& figure, const TerminalStyle& style, Painter& painter) {
  const ValueScale& scale = figure.scale;
  const std::string bar = style.colors == TerminalColors::kNone ? std::string(kShades) : painter.bar();
  return figure.scale_name + "  " + label_of(scale.kind, scale.domain.low) + " " + bar + " " +
         label_of(scale.kind, scale.domain.high) + "\n";
}

std::string legend_line(const Figure& figure, const TerminalStyle& style) {
  const Census census = census_of(figure.scale, figure.cells);
  const bool plain = style.colors == TerminalColors::kNone;
  std::string text;
  const auto add = [&](CellKind kind, const char* sign) {
    if (census.of_kind[static_cast<std::size_t>(kind)] == 0) return;
    text += concat(text.empty() ? "" : "   ", sign, " ", name_of(kind));
  };
  add(CellKind::kBelow, plain ? "." : "·");
  add(CellKind::kMasked, plain ? "(blank)" : "╱");
  add(CellKind::kPending, "?");
  add(CellKind::kNonFinite, plain ? "!" : "\x1b[38;5;199m█\x1b[0m");
  return text.empty() ? "" : text + "\n";
}

}  // namespace

int nearest_of_256(Rgb color) {
  const OkLab wanted = oklab_of(color);
  int best = 16;
  double nearest = std::numeric_limits<double>::infinity();
  for (int index = 16; index < 256; ++index) {
    const double far = distance(wanted, oklab_of(color_of_256(index)));
    if (far < nearest) {
      nearest = far;
      best = index;
    }
  }
  return best;
}

Index cells_across(const TerminalStyle& style, Index largest_row) {
  const Index room = style.columns - static_cast<Index>(grouped(largest_row).size()) - 1;
  return std::max<Index>(1, style.colors == TerminalColors::kNone ? room / kCellsWithoutColors : room);
}

std::string render_terminal(const Figure& figure, const TerminalStyle& style) {
  check(figure);
  const bool plain = style.colors == TerminalColors::kNone;
  const std::size_t label_width = grouped(std::max<Index>(figure.rows.existing_end() - 1, 0)).size();
  const Index cell_width = plain ? kCellsWithoutColors : 1, step = plain ? 1 : 2;
  const auto map_width = static_cast<std::size_t>(figure.cells.width * cell_width);
  const Letters letters(figure, style, label_width + 1 + map_width);
  const std::size_t gutter = letters.empty() ? 0 : Letters::gutter(style.colors);
  std::string text = line_of(figure.title, style);
  for (const std::string& note : figure.notes) text += line_of(note, style);
  text += key_line(figure, label_width + gutter, map_width);
  if (!letters.empty()) text += std::string(label_width + 1 + gutter, ' ') + letters.above(cell_width);
  Painter painter(figure, style);
  for (Index row = 0; row < figure.cells.height; row += step) {
    const bool labelled = row / step % 4 == 0;
    const std::string label = labelled ? grouped(first_position(figure.rows, row, figure.cells.height)) : "";
    text += padded_left(label, label_width) + " " + letters.beside(row, step) +
            (plain ? plain_line(figure, row) : painter.line(row)) + "\n";
  }
  return text + scale_line(figure, style, painter) + legend_line(figure, style);
}

}  // namespace multihead::picture
