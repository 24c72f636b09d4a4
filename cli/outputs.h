// Files that a command will write: checked before anything is computed, written after everything is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "multihead/tensor.h"
#include "report.h"

namespace multihead::cli {

class OutputFiles {
 public:
  /// `name` is the option without dashes.
  void add(const std::string& name, const std::filesystem::path& path) { files_.push_back({name, path}); }
  /// A file that is read, so that no output may replace it.
  void add_input(const std::string& name, const std::filesystem::path& path) { inputs_.push_back({name, path}); }

  /// Throws InvalidArgument when a path is given twice or is no place for a file, IoError when its folder takes no new files.
  void check() const;

  /// Writes the named file; the names written, with path, shape and type, go into the report.
  void write(const std::string& name, const ConstTensorView& values);
  void add_facts(Report& report) const;

 private:
  struct File {
    std::string name;
    std::filesystem::path path;
  };
  std::vector<File> files_, inputs_;
  std::string written_;
  Json written_json_ = Json::array();
};

}  // namespace multihead::cli
