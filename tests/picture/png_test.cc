// PNG: what is written comes back from libpng's own reader, and nothing else is left behind.
#include "picture/png.h"

#include <filesystem>
#include <fstream>

#include "multihead/error.h"
#include "picture/picture_testing.h"
#include "picture/write_file.h"

namespace multihead::picture_test {
namespace {

Raster gradient(Index width, Index height) {
  Raster raster(width, height, kBlack);
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      raster.at(x, y) = {static_cast<std::uint8_t>(x * 7), static_cast<std::uint8_t>(y * 11), static_cast<std::uint8_t>(x ^ y)};
    }
  }
  return raster;
}

TEST(Png, PixelsComeBack) {
  for (const auto& [width, height] : {std::pair<Index, Index>{1, 1}, {3, 2}, {1, 70}, {257, 1}, {100, 33}}) {
    const Raster written = gradient(width, height), read = decoded(encode_png(written));
    ASSERT_EQ(read.width(), width);
    ASSERT_EQ(read.height(), height);
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x) ASSERT_EQ(read.at(x, y), written.at(x, y)) << x << ", " << y;
    }
  }
}

TEST(Png, TextIsInTheFile) {
  const std::string bytes = encode_png(gradient(4, 4), {{"Title", "Head 5 − größer"}, {"Software", "multihead"}});
  for (const char* word : {"sRGB", "iTXt", "Title", "Head 5 − größer", "Software"}) {
    EXPECT_NE(bytes.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(decoded(bytes).at(3, 3), gradient(4, 4).at(3, 3));
}

TEST(Png, RefusesAPictureWithoutPixels) {
  EXPECT_THROW(encode_png({}), InvalidArgument);
  EXPECT_THROW(encode_png(Raster(0, 3, kBlack)), InvalidArgument);
}

TEST(Png, ReplacesAFileWhole) {
  std::string folder = (std::filesystem::temp_directory_path() / "multihead-png-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(folder) / "a.png";
  picture::write_file(path, "old");
  picture::write_file(path, encode_png(gradient(5, 4)));
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_EQ(bytes.str(), encode_png(gradient(5, 4)));
  EXPECT_THROW(picture::write_file(std::filesystem::path(folder) / "none" / "a.png", "new"), IoError);
  const std::filesystem::directory_iterator entries(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "temporary files";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace multihead::picture_test
