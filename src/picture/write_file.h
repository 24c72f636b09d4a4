// Whole files from bytes in memory.
#pragma once

#include <filesystem>
#include <string>

namespace multihead::picture {

/// Written beside and renamed: a reader sees the old file or the new one. Throws IoError.
void write_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace multihead::picture
