#include "bundled_model.h"

#include <string>
#include <system_error>
#include <vector>

#include "multihead/error.h"

namespace multihead::cli {
namespace {

namespace fs = std::filesystem;

// The build says where: MULTIHEAD_MODELS_FROM_PROGRAM relative to the installed program's folder, MULTIHEAD_SOURCE_MODELS.
std::vector<fs::path> places() {
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.push_back((program.parent_path() / MULTIHEAD_MODELS_FROM_PROGRAM / "austen").lexically_normal());
  places.push_back(fs::path(MULTIHEAD_SOURCE_MODELS) / "austen");
  return places;
}

}  // namespace

fs::path bundled_model() {
  std::string looked;
  for (const fs::path& place : places()) {
    std::error_code error;
    if (fs::exists(place / "config.json", error)) return place;
    looked += (looked.empty() ? "" : " nor ") + place.string();
  }
  throw IoError("the model that comes with the program is neither in " + looked +
                ": install the program with its share folder, or give --checkpoint a folder of a Llama model");
}

}  // namespace multihead::cli
