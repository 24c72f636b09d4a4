// The subcommands. Each add_… declares its options on `app` and runs when the command line has been parsed. What is wrong with
// the command line itself is thrown as CLI::ParseError (exit status 2), everything else as multihead::Error (exit status 1).
#pragma once

#include <CLI/CLI.hpp>

namespace multihead::cli {

void add_attend(CLI::App& app);
void add_bench(CLI::App& app);
void add_capture(CLI::App& app);
void add_describe(CLI::App& app);
void add_generate(CLI::App& app);
void add_inspect(CLI::App& app);
void add_lab(CLI::App& app);
void add_look(CLI::App& app);
void add_map(CLI::App& app);
void add_run(CLI::App& app);
void add_stats(CLI::App& app);
void add_targets(CLI::App& app);
void add_train(CLI::App& app);

}  // namespace multihead::cli
