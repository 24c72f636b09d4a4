#include "dlpack.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace multihead::python::dlpack {
namespace {

std::string attribute(nb::handle type, const char* name) {
  return nb::cast<std::string>(nb::str(nb::getattr(type, name, nb::str(""))));
}

ArrayType look_at(nb::handle type) {
  const std::string module = attribute(type, "__module__"), name = attribute(type, "__name__");
  const bool torch = module == "torch" || module.starts_with("torch.");
  ArrayType found{torch ? Framework::kTorch : Framework::kNumPy, nullptr};
  if (torch && name != "Tensor" && name != "Parameter") return found;
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") == 0) return found;
  const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (table->major == 1) found.table = table;
  return found;
}

nb::object exported_by_table(nb::handle object, const ExchangeTable& table) {
  VersionedTensor* tensor = nullptr;
  if (table.export_tensor(object.ptr(), &tensor) != 0) nb::raise_python_error();
  PyObject* capsule = PyCapsule_New(tensor, "dltensor_versioned", [](PyObject* dying) {
    auto* kept = static_cast<VersionedTensor*>(PyCapsule_GetPointer(dying, "dltensor_versioned"));
    if (kept->deleter != nullptr) kept->deleter(kept);
  });
  if (capsule == nullptr) {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
    nb::raise_python_error();
  }
  return nb::steal(capsule);
}

// A tensor for those who import it: what DLPack says of it lies beside its memory.
struct Exported {
  VersionedTensor versioned{};
  Tensor tensor;
  std::array<std::int64_t, Dims::kMaxRank> shape{}, strides{};

  explicit Exported(Tensor&& moved) : tensor(std::move(moved)) {
    const TensorView view = tensor.view();
    std::copy(view.shape.begin(), view.shape.end(), shape.begin());
    std::copy(view.strides.begin(), view.strides.end(), strides.begin());
    versioned = {1, 0, this, [](VersionedTensor* dying) { delete static_cast<Exported*>(dying->manager); }, 0, {}};
    versioned.tensor.data = view.data;
    versioned.tensor.device.device_type = kCpu;
    versioned.tensor.ndim = static_cast<std::int32_t>(view.rank());
    versioned.tensor.dtype = code_of(tensor.dtype());
    versioned.tensor.shape = shape.data();
    versioned.tensor.strides = strides.data();
  }
};

const ArrayType& torch_type() {
  static const ArrayType type = look_at(nb::module_::import_("torch").attr("Tensor"));
  return type;
}

}  // namespace

ArrayType type_of(nb::handle object) {
  // One type after another is rare: the last one is remembered, and kept alive so that nothing else gets its address.
  static nb::handle last;
  static ArrayType known;
  const nb::handle type = object.type();
  if (!type.is(last)) {
    known = look_at(type);
    if (last.is_valid()) last.dec_ref();
    last = type;
    last.inc_ref();
  }
  return known;
}

nb::object exported(nb::handle object, const ArrayType& type) {
  // The method refuses what has gradients; the table does not.
  const bool refuses = type.framework == Framework::kTorch && nb::cast<bool>(object.attr("requires_grad"));
  if (type.table != nullptr && !refuses) return exported_by_table(object, *type.table);
  // A version 1.0 capsule tells read-only memory; producers from before it know no max_version.
  try {
    return object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    return object.attr("__dlpack__")();
  }
}

nb::object torch_tensor(Tensor&& tensor) {
  auto owned = std::make_unique<Exported>(std::move(tensor));
  if (const ExchangeTable* table = torch_type().table; table != nullptr) {
    void* object = nullptr;
    if (table->import_tensor(&owned.release()->versioned, &object) != 0) nb::raise_python_error();
    return nb::steal(static_cast<PyObject*>(object));
  }
  const Exported& memory = *owned;
  std::array<std::size_t, Dims::kMaxRank> extents{};
  std::copy(memory.shape.begin(), memory.shape.end(), extents.begin());
  const auto rank = static_cast<std::size_t>(memory.tensor.rank());
  const nb::dlpack::dtype dtype = memory.versioned.tensor.dtype;
  void* data = memory.versioned.tensor.data;
  const nb::capsule owner(owned.release(), [](void* pointer) noexcept { delete static_cast<Exported*>(pointer); });
  return nb::cast(nb::ndarray<nb::pytorch>(data, rank, extents.data(), owner, nullptr, dtype, kCpu));
}

nb::dlpack::dtype code_of(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::kBool:
      return {6, bits, 1};
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return {0, bits, 1};
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return {1, bits, 1};
    case DType::kBF16:
      return {4, bits, 1};
    default:
      return {2, bits, 1};
  }
}

}  // namespace multihead::python::dlpack
