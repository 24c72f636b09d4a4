#include "array.h"

#include <Python.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "dlpack.h"

namespace multihead::python {
namespace {

constexpr int kPinned = 3;  // with dlpack::kCpu DLPack's device types whose memory the CPU reads

nb::builtin_exception type_error(const Where& where, const std::string& text) {
  return nb::type_error(at(where, text).c_str());
}
nb::builtin_exception value_error(const Where& where, const std::string& text) {
  return nb::value_error(at(where, text).c_str());
}

std::string class_name(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

// What a Python exception says, without its traceback.
std::string text_of(const nb::python_error& error) { return nb::cast<std::string>(nb::str(error.value())); }

std::optional<DType> integer_of(bool is_signed, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    case 8:
      return is_signed ? DType::kI64 : DType::kU64;
    default:
      return std::nullopt;
  }
}

// struct module's format codes, https://docs.python.org/3/library/struct.html#format-characters
std::optional<DType> dtype_of_format(const std::string& code, std::size_t bytes) {
  if (code.size() != 1) return std::nullopt;
  if (std::strchr("bhilqn", code[0]) != nullptr) return integer_of(true, bytes);
  if (std::strchr("BHILQN", code[0]) != nullptr) return integer_of(false, bytes);
  switch (code[0]) {
    case '?':
      return DType::kBool;
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> dtype_of_dlpack(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  const std::size_t bytes = dtype.bits / 8u;
  switch (dtype.code) {
    case 0:
      return integer_of(true, bytes);
    case 1:
      return integer_of(false, bytes);
    case 2:
      return bytes == 2   ? std::optional(DType::kF16)
             : bytes == 4 ? std::optional(DType::kF32)
             : bytes == 8 ? std::optional(DType::kF64)
                          : std::nullopt;
    case 4:
      return bytes == 2 ? std::optional(DType::kBF16) : std::nullopt;
    case 6:
      return bytes == 1 ? std::optional(DType::kBool) : std::nullopt;
    default:
      return std::nullopt;
  }
}

void require_elements(const Where& where, DType dtype, Elements elements) {
  const bool fits = elements == Elements::kAny || (elements == Elements::kAttention && is_attention_dtype(dtype)) ||
                    (elements == Elements::kF32 && dtype == DType::kF32) ||
                    (elements == Elements::kWide && (dtype == DType::kF32 || dtype == DType::kF64)) ||
                    (elements == Elements::kMask && (dtype == DType::kBool || dtype == DType::kU8));
  if (fits) return;
  const char* expected = elements == Elements::kAttention ? "float32, float16 or bfloat16"
                         : elements == Elements::kF32     ? "float32"
                         : elements == Elements::kWide    ? "float32 or float64"
                                                          : "bool or uint8 (true = may attend)";
  throw type_error(where, std::string("expected ") + expected + "; got " + python_name(dtype));
}

// Strides of bytes as strides of elements. Axes that are never walked along may have any.
Dims element_strides(const Where& where, const Dims& shape, const Py_ssize_t* bytes, std::size_t size) {
  Dims strides = shape;
  const bool empty = shape.product() == 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto step = static_cast<Index>(bytes[axis]);
    if (empty || shape[axis] == 1) {
      strides[axis] = 0;
    } else if (step % static_cast<Index>(size) == 0) {
      strides[axis] = step / static_cast<Index>(size);
    } else {
      throw value_error(where, "expected steps that are multiples of the element's " + std::to_string(size) +
                                   " bytes; got a step of " + std::to_string(step) + " bytes along axis " +
                                   std::to_string(axis) + " (copy it, e.g. with numpy.ascontiguousarray)");
    }
  }
  return strides;
}

Dims dims_of(const Where& where, const std::int64_t* values, int rank) {
  if (rank > Dims::kMaxRank) {
    throw value_error(where, "expected at most " + std::to_string(Dims::kMaxRank) + " axes; got " + std::to_string(rank));
  }
  return Dims(std::span<const Index>(values, static_cast<std::size_t>(rank)));
}

}  // namespace

std::string at(const Where& where, const std::string& text) {
  return std::string(where.function) + ": " + where.name + ": " + text;
}

Array::Array(nb::handle object, const Where& where, Elements elements) {
  if (!read_buffer(object, where)) {
    const nb::object dtype = nb::getattr(object, "dtype", nb::none());
    if (nb::hasattr(object, "__array_interface__") && nb::cast<std::string>(nb::str(dtype)) == "bfloat16") {
      read_bfloat16(object, where);
    } else if (nb::hasattr(object, "__dlpack__")) {
      read_dlpack(object, where);
    } else {
      throw type_error(where, "expected an array (NumPy, PyTorch, or anything with the buffer protocol or DLPack); got " +
                                  class_name(object));
    }
  }
  if (view_.size() > 0 && reinterpret_cast<std::uintptr_t>(view_.data) % size_of(view_.dtype) != 0) {
    throw value_error(where, "expected memory at a multiple of the element's " + std::to_string(size_of(view_.dtype)) +
                                 " bytes; got a misaligned array (copy it)");
  }
  require_elements(where, view_.dtype, elements);
}

// False, with nothing said, for an object without a buffer, or with one of a type that struct codes cannot tell (ml_dtypes).
bool Array::read_buffer(nb::handle object, const Where& where) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  Py_buffer buffer;
  PyObject* memory = PyMemoryView_FromObject(object.ptr());
  if (memory == nullptr) {
    PyErr_Clear();
    return false;
  }
  keep_alive_ = nb::steal(memory);
  if (PyObject_GetBuffer(memory, &buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    const nb::python_error error;
    throw value_error(where, text_of(error));
  }
  // The memoryview holds the memory; what is described here is copied out before the description is given back.
  const struct Release {
    Py_buffer& buffer;
    ~Release() { PyBuffer_Release(&buffer); }
  } release{buffer};

  std::string code = buffer.format == nullptr ? "B" : buffer.format;
  if (!code.empty() && std::strchr("@=<>!", code[0]) != nullptr) {
    const bool big = code[0] == '>' || code[0] == '!', little = code[0] == '<';
    constexpr bool kBigHere = std::endian::native == std::endian::big;
    if (buffer.itemsize > 1 && ((big && !kBigHere) || (little && kBigHere))) {
      throw type_error(where, "expected this machine's byte order; got the other one (format '" + code +
                                  "'; convert it, e.g. with .astype(numpy.float32))");
    }
    code.erase(0, 1);
  }
  const std::optional<DType> dtype = dtype_of_format(code, static_cast<std::size_t>(buffer.itemsize));
  if (!dtype) throw type_error(where, "expected numbers; got elements of format '" + code + "'");
  std::array<std::int64_t, PyBUF_MAX_NDIM> shape{};
  for (int axis = 0; axis < buffer.ndim; ++axis) shape[static_cast<std::size_t>(axis)] = buffer.shape[axis];
  const Dims dims = dims_of(where, shape.data(), buffer.ndim);
  view_ = ConstTensorView(buffer.buf, *dtype, dims, element_strides(where, dims, buffer.strides, size_of(*dtype)));
  read_only_ = buffer.readonly != 0;
  return true;
}

// ml_dtypes' arrays have no buffer of their own; as 16-bit integers they do, with the same strides.
void Array::read_bfloat16(nb::handle object, const Where& where) {
  read_buffer(object.attr("view")("uint16"), where);
  view_.dtype = DType::kBF16;
}

void Array::read_dlpack(nb::handle object, const Where& where) {
  nb::object capsule;
  try {
    const dlpack::ArrayType type = dlpack::type_of(object);
    framework_ = type.framework;
    capsule = dlpack::exported(object, type);
  } catch (const nb::python_error& error) {
    throw type_error(where, text_of(error));
  }
  const nb::dlpack::dltensor* tensor = nullptr;
  if (void* versioned = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0
                            ? PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned")
                            : nullptr) {
    const auto* managed = static_cast<const dlpack::VersionedTensor*>(versioned);
    if (managed->major != 1) throw type_error(where, "expected DLPack 1; got version " + std::to_string(managed->major));
    tensor = &managed->tensor;
    read_only_ = (managed->flags & dlpack::kReadOnlyFlag) != 0;
  } else {
    tensor = static_cast<const nb::dlpack::dltensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (tensor == nullptr) nb::raise_python_error();
  }
  if (tensor->device.device_type != dlpack::kCpu && tensor->device.device_type != kPinned) {
    throw type_error(where, "expected an array in the CPU's memory; got one on another device (DLPack device type " +
                                std::to_string(tensor->device.device_type) + ")");
  }
  const std::optional<DType> dtype = dtype_of_dlpack(tensor->dtype);
  if (!dtype) {
    throw type_error(where, "expected numbers; got DLPack elements of code " + std::to_string(tensor->dtype.code) + " with " +
                                std::to_string(tensor->dtype.bits) + " bits");
  }
  const Dims shape = dims_of(where, tensor->shape, tensor->ndim);
  const Dims strides = tensor->strides == nullptr ? contiguous_strides(shape) : dims_of(where, tensor->strides, tensor->ndim);
  const auto* memory = static_cast<const unsigned char*>(tensor->data);
  view_ = ConstTensorView(static_cast<const void*>(memory == nullptr ? nullptr : memory + tensor->byte_offset), *dtype, shape,
                          strides);
  keep_alive_ = std::move(capsule);
}

TensorView Array::writable(const Where& where) const {
  if (read_only_) throw value_error(where, "expected an array that may be written; got a read-only one");
  return TensorView(const_cast<void*>(view_.data), view_.dtype, view_.shape, view_.strides);
}

std::string python_name(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kBF16:
      return "bfloat16";
    default:
      break;
  }
  const std::string name(name_of(dtype));  // "f32", "u8", "i64"
  const char* kind = name[0] == 'f' ? "float" : name[0] == 'u' ? "uint" : "int";
  return kind + name.substr(1);
}

DType dtype_of_python(nb::handle object, const Where& where) {
  nb::object given = nb::isinstance<nb::type_object>(object) ? nb::getattr(object, "__name__") : nb::borrow(object);
  std::string name = nb::cast<std::string>(nb::str(given));
  if (name.starts_with("torch.")) name.erase(0, 6);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kBool, DType::kU8, DType::kI8, DType::kU16,
                            DType::kI16, DType::kU32, DType::kI32, DType::kU64, DType::kI64, DType::kF64}) {
    if (name == python_name(dtype)) return dtype;
  }
  throw type_error(where,
                   "expected the name of an element type, e.g. 'float32', or a NumPy or torch dtype; got '" + name + "'");
}

}  // namespace multihead::python
