// Arrays from files, as the commands take them: named in every complaint, converted without losing a value silently.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "multihead/tensor.h"
#include "report.h"

namespace multihead::cli {

/// An array and where it came from.
struct Array {
  std::string name;  ///< the option without dashes: "query"
  std::filesystem::path path;
  Tensor tensor;

  /// "query q.npy", for complaints.
  std::string label() const { return name + " " + path.string(); }
};

Array read_array(const std::string& name, const std::filesystem::path& path);

/// The type to compute in: `wanted`, or that of the files (f64 counts as f32), which must then agree.
DType common_dtype(const std::vector<const Array*>& arrays, const std::optional<DType>& wanted);

/// Converts f16, f32 or f64 to `dtype`. Throws InvalidArgument for other types and for a finite value that `dtype` cannot hold.
void convert_array(Array& array, DType dtype);

/// Rank-`rank` arrays stay; one axis less gets a batch axis of 1 in front. Returns whether the batch axis was there. `axes` is
/// how the shape is written in the complaint, e.g. "length, model_dim".
bool add_batch_axis(Array& array, int rank, const std::string& axes);

/// Numbers for lists such as slopes, from a rank-1 array of f16, f32 or f64.
std::vector<float> list_of_reals(const Array& array);
/// Counts, from an array of integers of rank 1 (rank 0 is a list of one).
std::vector<Index> list_of_integers(const Array& array);

/// Adds "name: shape dtype path".
void add_fact(Report& report, const Array& array);

/// Throws InvalidArgument when `bytes` exceed the machine's memory: better than to be killed half way.
void require_memory(double bytes, const std::string& purpose);

}  // namespace multihead::cli
