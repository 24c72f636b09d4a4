// PNG through libpng.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "picture/raster.h"

namespace multihead::picture {

/// Latin-1 keyword and UTF-8 text, kept in the file: what the picture shows and how it was made.
using PngText = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a PNG file: 8-bit RGB, marked as sRGB. Throws InvalidArgument for a picture without pixels or with more than a
/// PNG may have, std::bad_alloc without memory.
std::string encode_png(const Raster& picture, const PngText& text = {});

}  // namespace multihead::picture
