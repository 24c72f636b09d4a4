// Threads and instruction set, as every command that computes takes them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "multihead/tensor.h"

namespace multihead::cli {

struct MachineOptions {
  std::optional<Index> threads;
  std::string target;

  /// For the whole process.
  void apply() const;
};

void add_machine_options(CLI::App& app, MachineOptions& options, const std::string& group);

}  // namespace multihead::cli
