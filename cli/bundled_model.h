// The model that comes with the program: models/austen.
#pragma once

#include <filesystem>

namespace multihead::cli {

/// Its folder: beside the installed program (../share/multihead/models/austen), else in the source tree that the program was
/// built from. A folder, not a part of the program: every command, and every other program that reads Llama checkpoints, takes
/// it as it is, and one reader of files is enough. Throws IoError that says where it was looked for, and what to do.
std::filesystem::path bundled_model();

}  // namespace multihead::cli
