// DLPack 1.0 between Python's arrays and memory (https://dmlc.github.io/dlpack/latest/c_api.html, python_spec.html).
#pragma once

#include <Python.h>
#include <nanobind/ndarray.h>

#include <cstdint>

#include "array.h"
#include "multihead/tensor.h"

namespace multihead::python::dlpack {

constexpr int kCpu = 1;

/// A capsule's content, "dltensor_versioned"; before 1.0 it began with the tensor.
struct VersionedTensor {
  std::uint32_t major, minor;
  void* manager;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};
constexpr std::uint64_t kReadOnlyFlag = 1;

/// The functions that a type may offer beside its __dlpack__ method, as far as they are used here. Each gives -1 and a Python
/// exception when it fails.
struct ExchangeTable {
  std::uint32_t major, minor;
  const void* previous;
  const void* allocate;
  int (*export_tensor)(void* object, VersionedTensor** tensor);
  int (*import_tensor)(VersionedTensor* tensor, void** object);  // takes the tensor
};

struct ArrayType {
  Framework framework = Framework::kNumPy;
  const ExchangeTable* table = nullptr;  // null: its method only
};

/// What is known of an object's type. Subclasses of PyTorch's tensors are given no table: they may have no memory at all.
ArrayType type_of(nb::handle object);

/// The object's memory as a capsule, either version. nb::python_error where the object refuses.
nb::object exported(nb::handle object, const ArrayType& type);

/// A PyTorch tensor that owns `tensor`. Needs PyTorch to be there.
nb::object torch_tensor(Tensor&& tensor);

/// DLPack's code of an element type.
nb::dlpack::dtype code_of(DType dtype);

}  // namespace multihead::python::dlpack
