// The index of a checkpoint in several files: {"metadata": {…}, "weight_map": {tensor name: file name}}.
// Source: huggingface_hub, src/huggingface_hub/serialization/_base.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/file.h"

namespace multihead {

/// File name beside the index → the tensors that must be in it. Names are relative, normal and without "..".
using ShardMap = std::map<std::string, std::vector<std::string>>;

/// Throws FormatError: not JSON of that form, a tensor named twice, a file name that leads out of the folder.
ShardMap read_safetensors_index(const ByteSource& source);

}  // namespace multihead
