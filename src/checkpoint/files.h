// Which file of a checkpoint holds its tensors.
#pragma once

#include <filesystem>

namespace multihead::checkpoint {

/// `path` itself unless it is a folder; of a folder what has the usual name, else the only index, else the only .safetensors
/// file. Folders may hold the same weights twice, in several precisions or under Meta's names. Throws IoError, FormatError.
std::filesystem::path tensors_of(const std::filesystem::path& path);

}  // namespace multihead::checkpoint
