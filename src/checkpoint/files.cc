#include "checkpoint/files.h"

#include <vector>

#include "io/text.h"

namespace multihead::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path tensors_in(const fs::path& folder) {
  std::error_code error;
  for (const char* usual : {"model.safetensors.index.json", "model.safetensors",
                            "diffusion_pytorch_model.safetensors.index.json", "diffusion_pytorch_model.safetensors"}) {
    if (fs::exists(folder / usual, error)) return folder / usual;
  }
  std::vector<fs::path> indices, files;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors.index.json")) indices.push_back(entry->path());
    if (name.ends_with(".safetensors")) files.push_back(entry->path());
  }
  if (error) throw IoError(concat(folder.string(), ": ", error.message()));
  if (indices.size() == 1) return indices.front();
  if (indices.empty() && files.size() == 1) return files.front();
  refuse(folder.string(), "expected model.safetensors, or one *.safetensors.index.json, or one *.safetensors; got ",
         indices.size(), " and ", files.size());
}

}  // namespace

fs::path tensors_of(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? tensors_in(path) : path;
}

}  // namespace multihead::checkpoint
