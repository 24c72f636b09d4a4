// A map drawn at some resolution: into a file, or as text for the terminal.
#pragma once

#include <filesystem>
#include <string>

#include "map_options.h"
#include "multihead/attention_map.h"
#include "picture/map_figure.h"

namespace multihead::cli {

/// Of options.head, rows, keys, pooling, scale and domain, with at most `most_cells` cells on the longer side. Shows progress.
/// Throws InvalidArgument for rows or keys that are not there.
picture::MapFigure draw(const AttentionMap& map, const MapOptions& options, Index most_cells);

/// Throws usage_error unless the name ends in .png, .svg or .npy.
void check_drawing_name(const std::filesystem::path& path);
/// As its ending says.
void write_drawing(const picture::MapFigure& drawing, const std::filesystem::path& path);

/// The map in the style of standard output, and a table of its largest coefficients.
std::string terminal_text(const AttentionMap& map, const MapOptions& options);

}  // namespace multihead::cli
