// What the tests of pictures share: reading back, and small maps whose look is known.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "picture/figure.h"
#include "picture/raster.h"

namespace multihead::picture_test {

using namespace picture;  // NOLINT: the subject

/// libpng's own reader. A failure and an empty picture for what is no PNG.
inline Raster decoded(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    ADD_FAILURE() << image.message;
    return {};
  }
  image.format = PNG_FORMAT_RGB;
  std::vector<unsigned char> memory(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, memory.data(), 0, nullptr) == 0) {
    ADD_FAILURE() << image.message;
    return {};
  }
  Raster raster(image.width, image.height, kBlack);
  for (std::size_t i = 0; i < memory.size() / 3; ++i) {
    raster.at(static_cast<Index>(i) % raster.width(), static_cast<Index>(i) / raster.width()) = {
        memory[3 * i], memory[3 * i + 1], memory[3 * i + 2]};
  }
  return raster;
}

/// Elements by name, counted by Python's XML parser; a failure when the text is not well-formed.
inline std::map<std::string, int> elements_of(const std::string& xml) {
  std::string folder = (std::filesystem::temp_directory_path() / "multihead-svg-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  std::ofstream(folder + "/picture.svg", std::ios::binary) << xml;
  const std::string script =
      "import collections, sys, xml.etree.ElementTree as tree\n"
      "tags = collections.Counter(e.tag.split('}')[1] for e in tree.parse(sys.argv[1]).iter())\n"
      "print(*(f'{k} {v}' for k, v in tags.items()), sep='\\n')\n";
  std::ofstream(folder + "/count.py") << script;
  const std::string command = std::string("'") + MULTIHEAD_PYTHON + "' '" + folder + "/count.py' '" + folder +
                              "/picture.svg' > '" + folder + "/counts'";
  EXPECT_EQ(std::system(command.c_str()), 0) << "not well-formed XML";
  std::map<std::string, int> counts;
  std::ifstream lines(folder + "/counts");
  std::string tag;
  int count = 0;
  while (lines >> tag >> count) counts[tag] = count;
  std::filesystem::remove_all(folder);
  return counts;
}

/// A figure of one number a cell.
inline Figure figure_of(Index height, Index width, std::vector<float> values, ScaleKind kind = ScaleKind::kLinear) {
  Figure figure;
  figure.title = "Head 0";
  figure.rows = {"query", 0, height, {}};
  figure.keys = {"key", 0, width, {}};
  figure.cells = {height, width, std::move(values), std::vector<CellKind>(static_cast<std::size_t>(height * width))};
  figure.scale.kind = kind;
  figure.scale.domain = domain_for(kind, figure.cells);
  figure.scale_name = "p";
  return figure;
}

}  // namespace multihead::picture_test
