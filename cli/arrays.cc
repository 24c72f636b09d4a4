#include "arrays.h"

#include <unistd.h>

#include <cmath>

#include "multihead/io.h"

namespace multihead::cli {
namespace {

bool is_floating(DType dtype) { return dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kF64; }

void require_floating(const Array& array) {
  const DType dtype = array.tensor.dtype();
  if (!is_floating(dtype)) {
    throw InvalidArgument(array.label() + ": expected f16, f32 or f64; got " + std::string(name_of(dtype)));
  }
}

std::string shape_of(const Array& array) { return to_string(array.tensor.shape()); }

}  // namespace

Array read_array(const std::string& name, const std::filesystem::path& path) { return {name, path, read_npy(path)}; }

DType common_dtype(const std::vector<const Array*>& arrays, const std::optional<DType>& wanted) {
  std::optional<DType> common = wanted;
  const Array* first = nullptr;
  for (const Array* array : arrays) {
    require_floating(*array);
    if (wanted) continue;
    const DType own = array->tensor.dtype() == DType::kF64 ? DType::kF32 : array->tensor.dtype();
    if (!common) {
      common = own;
      first = array;
    } else if (own != *common) {
      throw InvalidArgument(array->label() + " is " + std::string(name_of(array->tensor.dtype())) + " but " + first->label() +
                            " is " + std::string(name_of(first->tensor.dtype())) + "; say with --dtype what to compute in");
    }
  }
  return *common;
}

void convert_array(Array& array, DType dtype) {
  require_floating(array);
  if (array.tensor.dtype() == dtype) return;
  Tensor converted = Tensor::converted(array.tensor, dtype);
  for (Index i = 0; i < converted.size(); ++i) {
    const double before = load_as_double(array.tensor, i);
    if (std::isfinite(before) && !std::isfinite(load_as_double(converted, i))) {
      throw InvalidArgument(array.label() + ": " + scientific(before) + " is beyond the range of " +
                            std::string(name_of(dtype)));
    }
  }
  array.tensor = std::move(converted);
}

bool add_batch_axis(Array& array, int rank, const std::string& axes) {
  if (array.tensor.rank() == rank) return true;
  if (array.tensor.rank() != rank - 1) {
    throw InvalidArgument(array.label() + ": expected [" + axes + "] or [batch, " + axes + "]; got " + shape_of(array));
  }
  std::vector<Index> shape{1};
  shape.insert(shape.end(), array.tensor.shape().begin(), array.tensor.shape().end());
  array.tensor = std::move(array.tensor).reshaped(Dims(shape));
  return false;
}

std::vector<float> list_of_reals(const Array& array) {
  require_floating(array);
  if (array.tensor.rank() != 1)
    throw InvalidArgument(array.label() + ": expected one value per head, [heads]; got " + shape_of(array));
  std::vector<float> values;
  for (Index i = 0; i < array.tensor.size(); ++i) values.push_back(static_cast<float>(load_as_double(array.tensor, i)));
  return values;
}

std::vector<Index> list_of_integers(const Array& array) {
  const DType dtype = array.tensor.dtype();
  if (is_floating(dtype) || dtype == DType::kBool) {
    throw InvalidArgument(array.label() + ": expected integers; got " + std::string(name_of(dtype)));
  }
  if (array.tensor.rank() > 1)
    throw InvalidArgument(array.label() + ": expected one value per batch entry, [batch]; got " + shape_of(array));
  const Tensor wide = Tensor::converted(array.tensor, DType::kI64);
  return {wide.data<Index>(), wide.data<Index>() + wide.size()};
}

void add_fact(Report& report, const Array& array) {
  const std::string dtype(name_of(array.tensor.dtype()));
  report.add(array.name, shape_of(array) + " " + dtype + "  " + array.path.string(),
             {{"path", array.path.string()}, {"shape", json_of(array.tensor.shape())}, {"dtype", dtype}});
}

void require_memory(double bytes, const std::string& purpose) {
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > memory) {
    throw InvalidArgument(purpose + " would take " + bytes_text(bytes) + "; this machine has " + bytes_text(memory));
  }
}

}  // namespace multihead::cli
