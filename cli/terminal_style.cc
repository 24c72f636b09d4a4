#include "terminal_style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>

namespace multihead::cli {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

picture::TerminalColors colors_of_standard_output() {
  const std::string term = setting("TERM"), colorterm = setting("COLORTERM");
  if (isatty(STDOUT_FILENO) == 0 || !setting("NO_COLOR").empty() || term.empty() || term == "dumb") {
    return picture::TerminalColors::kNone;
  }
  const bool is_true = colorterm == "truecolor" || colorterm == "24bit" || term.find("direct") != std::string::npos;
  return is_true ? picture::TerminalColors::kTrueColor : picture::TerminalColors::k256;
}

Index columns_of_standard_output() {
  constexpr Index kUsual = 80, kLeast = 20, kMost = 1000;
  winsize size{};
  Index columns = 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns == 0) {
    const std::string text = setting("COLUMNS");
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  return columns >= kLeast && columns <= kMost ? columns : kUsual;
}

// Some terminals say "foreground;background" in numbers of the 16 colours: 7 and 15 are white.
bool has_light_background() {
  const std::string colors = setting("COLORFGBG");
  const std::string background = colors.substr(colors.rfind(';') + 1);
  return !colors.empty() && (background == "7" || background == "15");
}

}  // namespace

picture::TerminalStyle style_of_standard_output() {
  return {colors_of_standard_output(), columns_of_standard_output(), has_light_background()};
}

}  // namespace multihead::cli
