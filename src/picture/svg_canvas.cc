#include "picture/svg_canvas.h"

#include <cstdio>

#include "base/message.h"
#include "io/text.h"
#include "picture/png.h"

namespace multihead::picture {
namespace {

// At most two digits after the point, none when they are zeros.
std::string number(double x) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.2f", x);
  std::string digits(text.data(), static_cast<std::size_t>(length));
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits == "-0" ? "0" : digits;
}

// Well-formed whatever the text holds: control characters and bytes that are no UTF-8 have no place in XML.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  // U+FFFE and U+FFFF are UTF-8, but no XML.
  for (const std::string_view outlaw : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = safe.find(outlaw); at != std::string::npos; at = safe.find(outlaw)) {
      safe.replace(at, outlaw.size(), "\xEF\xBF\xBD");
    }
  }
  return safe;
}

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) { return j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U; };
    const unsigned group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (unsigned j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kDigits[(group >> (18 - 6 * j)) & 63U] : '=';
    }
  }
  return text;
}

std::string pattern_id(CellKind kind) { return "kind" + std::to_string(static_cast<int>(kind)); }

// The same pixels as on a raster: runs of equal colour, row by row.
std::string pattern_definition(CellKind kind) {
  std::string text = concat("<pattern id=\"", pattern_id(kind), "\" width=\"", kPatternPeriod, "\" height=\"", kPatternPeriod,
                            "\" patternUnits=\"userSpaceOnUse\" shape-rendering=\"crispEdges\">");
  for (Index y = 0; y < kPatternPeriod; ++y) {
    for (Index x = 0, end = 0; x < kPatternPeriod; x = end) {
      const Rgb color = pattern_color(kind, x, y);
      while (end < kPatternPeriod && pattern_color(kind, end, y) == color) ++end;
      text += concat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", end - x, "\" height=\"1\" fill=\"", hex(color), "\"/>");
    }
  }
  return text + "</pattern>\n";
}

}  // namespace

std::string SvgCanvas::fill(const Paint& paint) {
  if (paint.kind == CellKind::kValue) return concat(" fill=\"", hex(paint.color), "\"");
  used_patterns_[static_cast<std::size_t>(paint.kind)] = true;
  return concat(" fill=\"url(#", pattern_id(paint.kind), ")\"");
}

void SvgCanvas::rectangle(const Box& box, const Paint& paint, const std::string& hint) {
  if (box.width <= 0 || box.height <= 0) return;
  body_ += concat("<rect x=\"", number(box.x), "\" y=\"", number(box.y), "\" width=\"", number(box.width), "\" height=\"",
                  number(box.height), "\"", fill(paint));
  body_ += hint.empty() ? "/>\n" : concat("><title>", escaped(hint), "</title></rect>\n");
}

void SvgCanvas::polygon(const std::vector<Point>& corners, const Paint& paint) {
  std::string points;
  for (const Point& p : corners) points += concat(points.empty() ? "" : " ", number(p.x), ",", number(p.y));
  body_ += concat("<polygon points=\"", points, "\"", fill(paint), "/>\n");
}

void SvgCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  body_ += concat("<text x=\"", number(at.x), "\" y=\"", number(at.y), "\" font-size=\"", number(style.size),
                  "\" text-anchor=\"", kAnchors[static_cast<int>(style.anchor)], "\"");
  if (style.bold) body_ += " font-weight=\"bold\"";
  if (!(style.color == kBlack)) body_ += concat(" fill=\"", hex(style.color), "\"");
  if (style.upwards) body_ += concat(" transform=\"rotate(-90 ", number(at.x), " ", number(at.y), ")\"");
  body_ += concat(" xml:space=\"preserve\">", escaped(text), "</text>\n");
}

void SvgCanvas::image(Point top_left, const Raster& pixels) {
  body_ += concat("<image x=\"", number(top_left.x), "\" y=\"", number(top_left.y), "\" width=\"", pixels.width(),
                  "\" height=\"", pixels.height(), "\" style=\"image-rendering:pixelated\" xlink:href=\"data:image/png;base64,",
                  base64(encode_png(pixels)), "\"/>\n");
}

std::string SvgCanvas::document(const std::string& title, const std::string& description) const {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += concat("<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"", width_,
                 "\" height=\"", height_, "\" viewBox=\"0 0 ", width_, " ", height_,
                 "\" font-family=\"Helvetica, Arial, sans-serif\" role=\"img\">\n");
  text += concat("<title>", escaped(title), "</title>\n<desc>", escaped(description), "</desc>\n<defs>\n");
  for (const CellKind kind : kCellKinds) {
    if (used_patterns_[static_cast<std::size_t>(kind)]) text += pattern_definition(kind);
  }
  return text +
         concat("</defs>\n<rect width=\"", width_, "\" height=\"", height_, "\" fill=\"#ffffff\"/>\n", body_, "</svg>\n");
}

}  // namespace multihead::picture
