// Arrays of Python as views of the library, without a copy: anything with the buffer protocol (NumPy, memoryview) or DLPack
// (PyTorch, JAX …), and NumPy arrays of ml_dtypes.bfloat16, which have neither. And tensors as arrays, on the way back.
//
// What cannot be read as it lies is refused by the argument's name: another element type, another byte order, steps that are no
// multiple of the element, another device. Bytes are never read as something else.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::python {

namespace nb = nanobind;

/// Who made an array, and so gets results of the same kind.
enum class Framework { kNumPy, kTorch };

/// What an argument may hold.
enum class Elements {
  kAttention,  ///< float32, float16, bfloat16
  kF32,
  kWide,  ///< float32, float64
  kMask,  ///< bool, uint8
  kAny,
};

/// An argument, for error texts.
struct Where {
  const char* function;
  const char* name;
};

/// "attention: query: " before a text.
std::string at(const Where& where, const std::string& text);

/// An array argument: a view of its memory, which stays alive and unchanged in shape as long as this object. Destroy it with
/// the GIL held.
class Array {
 public:
  /// TypeError for what is no array or has the wrong elements, ValueError for memory that cannot be read as it lies. Both name
  /// the argument.
  Array(nb::handle object, const Where& where, Elements elements);
  Array(Array&&) noexcept = default;

  const ConstTensorView& view() const { return view_; }
  Framework framework() const { return framework_; }
  /// The same memory for writing. ValueError for a read-only array.
  TensorView writable(const Where& where) const;

 private:
  bool read_buffer(nb::handle object, const Where& where);
  void read_bfloat16(nb::handle object, const Where& where);
  void read_dlpack(nb::handle object, const Where& where);

  ConstTensorView view_;
  nb::object keep_alive_;  // a memoryview or a DLPack capsule: each lets go of the memory when it dies
  bool read_only_ = false;
  Framework framework_ = Framework::kNumPy;
};

/// A new array of the given kind that owns the tensor. ImportError for bfloat16 as NumPy array without ml_dtypes.
nb::object array_of(Tensor&& tensor, Framework framework = Framework::kNumPy);

/// A read-only NumPy array over a tensor's memory, which `owner` keeps alive; None for an empty tensor.
nb::object array_over(const Tensor& tensor, nb::handle owner);

/// "float32", "bfloat16" …: NumPy's and PyTorch's name of an element type.
std::string python_name(DType dtype);

/// The inverse, from a name, a NumPy dtype or scalar type, or a torch.dtype. TypeError naming the argument.
DType dtype_of_python(nb::handle object, const Where& where);

/// The extent of an axis, 0 for one that is not there: shapes of results are computed before the call checks its arguments.
Index extent_of(const ConstTensorView& view, int axis);

/// A shape with another last extent, and without its last axis; both leave rank 0 as it is.
Dims with_last(Dims shape, Index extent);
Dims without_last(const Dims& shape);

/// Where a result goes: the caller's `out`, checked to be writable, or a new tensor that becomes the returned array.
class Result {
 public:
  /// `out` None: a new tensor. Elements of `out` may be any that attention computes on.
  Result(nb::handle out, const Where& where, DType dtype, const Dims& shape, Framework framework);

  const TensorView& view() const { return view_; }
  /// ValueError unless the memory of `out` lies apart from an input's. Compares the ranges of addresses: two views that only
  /// lie in between each other are refused, too.
  void require_apart(const ConstTensorView& input, const char* input_name) const;
  /// The array for Python; once.
  nb::object take() &&;

 private:
  nb::object out_;
  Where where_;
  Tensor tensor_;
  TensorView view_;
  std::vector<Array> array_;  // of `out`; at most one
  Framework framework_;
};

}  // namespace multihead::python
