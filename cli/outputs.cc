#include "outputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <system_error>

#include "multihead/io.h"

namespace multihead::cli {
namespace {

namespace fs = std::filesystem;

// Asks the file system itself, with a file that is gone again at once: permission bits do not tell about read-only mounts.
void require_writable_folder(const std::string& label, const fs::path& folder) {
  std::string probe = (folder / ".multihead-XXXXXX").string();
  const int descriptor = mkstemp(probe.data());
  if (descriptor < 0) {
    throw IoError(label + ": no file can be written in " + folder.string() + ": " + std::generic_category().message(errno));
  }
  close(descriptor);
  unlink(probe.c_str());
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : canonical;
}

void require_place(const std::string& label, const fs::path& path) {
  if (!path.has_filename()) throw InvalidArgument(label + ": expected the name of a file");
  std::error_code error;
  const fs::file_status target = fs::status(path, error);
  if (target.type() == fs::file_type::none) throw IoError(label + ": " + error.message());
  if (fs::is_symlink(fs::symlink_status(path, error)) && !fs::exists(target)) throw IoError(label + ": is a link to nothing");
  // Writing is renaming onto the path: onto a device, that would replace the device.
  if (fs::exists(target) && !fs::is_regular_file(target)) throw InvalidArgument(label + ": exists and is not a regular file");
  const fs::path real = resolved(path), folder = real.has_parent_path() ? real.parent_path() : ".";
  const fs::file_status there = fs::status(folder, error);
  if (!fs::exists(there)) throw IoError(label + ": the folder " + folder.string() + " does not exist");
  if (!fs::is_directory(there)) throw IoError(label + ": " + folder.string() + " is not a folder");
  require_writable_folder(label, folder);
}

}  // namespace

void OutputFiles::check() const {
  std::map<fs::path, std::string> taken;
  for (const File& input : inputs_) taken.emplace(resolved(input.path), input.name);
  for (const File& file : files_) {
    const std::string label = file.name + " '" + file.path.string() + "'";
    require_place(label, file.path);
    const auto [other, is_new] = taken.emplace(resolved(file.path), file.name);
    if (!is_new) throw InvalidArgument(label + ": the same file is given as " + other->second);
  }
}

void OutputFiles::write(const std::string& name, const ConstTensorView& values) {
  for (const File& file : files_) {
    if (file.name != name) continue;
    write_npy(file.path, values);
    // .npy has no bf16: such values are stored as f32.
    const std::string dtype(name_of(values.dtype == DType::kBF16 ? DType::kF32 : values.dtype));
    written_ += (written_.empty() ? "" : ", ") + name + " " + to_string(values.shape) + " " + dtype + " " + file.path.string();
    written_json_.push_back({{"name", name}, {"path", file.path.string()}, {"shape", json_of(values.shape)}, {"dtype", dtype}});
  }
}

void OutputFiles::add_facts(Report& report) const { report.add("written", written_, written_json_); }

}  // namespace multihead::cli
