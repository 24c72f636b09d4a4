// Tensors as arrays: results for Python.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "array.h"
#include "dlpack.h"

namespace multihead::python {
namespace {

// The first byte of a view that has elements, and the one behind its last.
std::pair<std::intptr_t, std::intptr_t> addresses_of(const ConstTensorView& view) {
  const auto size = static_cast<Index>(size_of(view.dtype));
  auto begin = reinterpret_cast<std::intptr_t>(view.data), end = begin + size;
  for (int axis = 0; axis < view.rank(); ++axis) {
    const Index reach = view.strides[axis] * (view.shape[axis] - 1) * size;
    (reach < 0 ? begin : end) += reach;
  }
  return {begin, end};
}

// Extents as nanobind takes them.
std::array<std::size_t, Dims::kMaxRank> extents_of(const Dims& shape) {
  std::array<std::size_t, Dims::kMaxRank> extents{};
  std::transform(shape.begin(), shape.end(), extents.begin(), [](Index extent) { return static_cast<std::size_t>(extent); });
  return extents;
}

// NumPy knows no bfloat16: it gets 16-bit integers, seen as ml_dtypes' type.
nb::object as_bfloat16(const nb::object& array) {
  return array.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
}
DType numpy_storage(DType dtype) { return dtype == DType::kBF16 ? DType::kU16 : dtype; }

}  // namespace

nb::object array_of(Tensor&& tensor, Framework framework) {
  if (framework == Framework::kTorch) return dlpack::torch_tensor(std::move(tensor));
  auto* kept = new Tensor(std::move(tensor));
  const nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  const auto extents = extents_of(kept->shape());
  const auto rank = static_cast<std::size_t>(kept->rank());
  const DType dtype = kept->dtype();
  void* memory = kept->view().data;
  const nb::dlpack::dtype stored = dlpack::code_of(numpy_storage(dtype));
  const nb::object array = nb::cast(nb::ndarray<nb::numpy>(memory, rank, extents.data(), owner, nullptr, stored, dlpack::kCpu));
  return dtype == DType::kBF16 ? as_bfloat16(array) : array;
}

nb::object array_over(const Tensor& tensor, nb::handle owner) {
  if (tensor.empty()) return nb::none();
  const auto extents = extents_of(tensor.shape());
  const auto rank = static_cast<std::size_t>(tensor.rank());
  const nb::dlpack::dtype stored = dlpack::code_of(numpy_storage(tensor.dtype()));
  const nb::ndarray<nb::numpy, nb::ro> view(tensor.view().data, rank, extents.data(), owner, nullptr, stored, dlpack::kCpu);
  const nb::object array = nb::cast(view, nb::rv_policy::reference);
  return tensor.dtype() == DType::kBF16 ? as_bfloat16(array) : array;
}

Index extent_of(const ConstTensorView& view, int axis) { return axis >= 0 && axis < view.rank() ? view.shape[axis] : 0; }

Dims with_last(Dims shape, Index extent) {
  if (shape.rank() > 0) shape[shape.rank() - 1] = extent;
  return shape;
}

Dims without_last(const Dims& shape) {
  return Dims(std::span<const Index>(shape.begin(), static_cast<std::size_t>(std::max(0, shape.rank() - 1))));
}

Result::Result(nb::handle out, const Where& where, DType dtype, const Dims& shape, Framework framework)
    : where_(where), framework_(framework) {
  if (out.is_none()) {
    tensor_ = Tensor::uninitialized(dtype, shape);
    view_ = tensor_.view();
  } else {
    out_ = nb::borrow(out);
    array_.emplace_back(out, where, Elements::kAttention);
    view_ = array_.back().writable(where);
  }
}

void Result::require_apart(const ConstTensorView& input, const char* input_name) const {
  if (array_.empty() || input.size() == 0 || view_.size() == 0) return;
  const auto [begin, end] = addresses_of(view_);
  const auto [input_begin, input_end] = addresses_of(input);
  if (begin < input_end && input_begin < end) {
    throw nb::value_error(at(where_, std::string("expected memory apart from the inputs'; it overlaps ") + input_name).c_str());
  }
}

nb::object Result::take() && { return out_.is_valid() ? std::move(out_) : array_of(std::move(tensor_), framework_); }

}  // namespace multihead::python
