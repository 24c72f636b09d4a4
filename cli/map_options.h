// What `multihead map` is asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "machine_options.h"
#include "multihead/attention_map.h"
#include "picture/cells.h"

namespace multihead::cli {

/// a:b, half open, where a missing end is the map's own.
struct OpenRange {
  std::optional<Index> begin, end;

  /// Throws InvalidArgument with `name` unless 0 <= begin < end <= length.
  IndexRange within(const std::string& name, Index length) const;
};

struct MapOptions {
  std::optional<std::filesystem::path> capture, output;
  std::optional<Index> head, batch, size;
  std::optional<Index> text_size;  // of the picture's letters, in pixels; no option of the command
  OpenRange rows, keys;
  Pooling pooling = Pooling::kMax;
  picture::ScaleKind scale = picture::ScaleKind::kLog;
  std::optional<picture::Domain> domain;
  bool terminal = false, json = false;
  MachineOptions machine;
};

void add_map_options(CLI::App& command, MapOptions& options);

}  // namespace multihead::cli
