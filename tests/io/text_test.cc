#include "io/text.h"

#include <gtest/gtest.h>

namespace multihead {
namespace {

TEST(Text, Utf8LengthAcceptsWhatUnicodeAllows) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xC2\x80"), 2u);
  EXPECT_EQ(utf8_length("\xE0\xA0\x80"), 3u);
  EXPECT_EQ(utf8_length("\xED\x9F\xBF"), 3u);
  EXPECT_EQ(utf8_length("\xF0\x90\x80\x80"), 4u);
  EXPECT_EQ(utf8_length("\xF4\x8F\xBF\xBF and more"), 4u);
}

TEST(Text, Utf8LengthRefusesTheRest) {
  for (const char* bad : {"", "\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2 ", "\xE0\x9F\xBF", "\xE2\x82",
                          "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(bad), 0u) << printable(bad);
  }
}

TEST(Text, PrintableIsOneLineOfUtf8) {
  EXPECT_EQ(printable("a\nb\x7F\xFFé"), "a\\x0Ab\\x7F\\xFFé");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Text, QuoteCutsBetweenCharacters) {
  EXPECT_EQ(quote("short"), "\"short\"");
  EXPECT_EQ(quote("aé", 2), "\"a\"… (3 bytes)");
  EXPECT_EQ(quote("aéb", 3), "\"aé\"… (4 bytes)");
  EXPECT_EQ(quote(std::string(1000, '\x80'), 10), "\"\"… (1000 bytes)") << "ill-formed text must not be walked without end";
}

}  // namespace
}  // namespace multihead
