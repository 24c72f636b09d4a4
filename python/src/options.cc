#include "options.h"

#include <Python.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

namespace multihead::python {
namespace {

[[noreturn]] void refuse(const Where& where, const char* expected, nb::handle got) {
  const std::string type = nb::cast<std::string>(nb::str(got.type().attr("__name__")));
  throw nb::type_error(at(where, std::string("expected ") + expected + "; got " + type).c_str());
}

// Calls `take` for every item of an iterable.
template <typename Take>
void for_each(nb::handle values, const Where& where, const char* expected, const Take& take) {
  PyObject* iterator = nb::isinstance<nb::str>(values) ? nullptr : PyObject_GetIter(values.ptr());
  if (iterator == nullptr) {
    PyErr_Clear();
    refuse(where, expected, values);
  }
  const nb::object items = nb::steal(iterator);
  while (PyObject* item = PyIter_Next(items.ptr())) take(nb::steal(item));
  if (PyErr_Occurred() != nullptr) nb::raise_python_error();
}

PackedSequences packed_of(nb::handle value, const Where& where) {
  if (!PySequence_Check(value.ptr()) || nb::len(value) != 2) refuse(where, "(query_starts, key_starts)", value);
  return {indices_of(nb::object(value[0]), where), indices_of(nb::object(value[1]), where)};
}

Dropout dropout_of(nb::handle value, const Where& where) {
  if (!PySequence_Check(value.ptr()) || nb::len(value) != 2) refuse(where, "(probability, seed)", value);
  return {float_of(nb::object(value[0]), where), static_cast<std::uint64_t>(index_of(nb::object(value[1]), where))};
}

void set_option(Options& result, const char* function, const std::string& name, nb::handle value) {
  AttentionOptions& options = result.options;
  const Where where{function, name.c_str()};
  if (name == "scale") {
    options.scale = float_of(value, where);
  } else if (name == "softcap") {
    options.softcap = float_of(value, where);
  } else if (name == "causal") {
    options.causal = bool_of(value, where);
  } else if (name == "query_offsets") {
    const bool one = PyIndex_Check(value.ptr()) != 0 && !nb::hasattr(value, "__len__");
    options.query_offsets = one ? std::vector<Index>{index_of(value, where)} : indices_of(value, where);
  } else if (name == "top_left") {
    options.top_left = bool_of(value, where);
  } else if (name == "window") {
    options.window = window_of(value, where);
  } else if (name == "key_lengths") {
    options.key_lengths = indices_of(value, where);
  } else if (name == "mask") {
    options.mask = result.arrays.emplace_back(value, where, Elements::kMask).view();
  } else if (name == "attention_bias") {
    options.attention_bias = result.arrays.emplace_back(value, where, Elements::kAttention).view();
  } else if (name == "alibi_slopes") {
    options.alibi_slopes = floats_of(value, where);
  } else if (name == "sinks") {
    options.sinks = floats_of(value, where);
  } else if (name == "packed") {
    options.packed = packed_of(value, where);
  } else if (name == "dropout") {
    options.dropout = dropout_of(value, where);
  } else {
    throw nb::type_error(
        (std::string(function) + ": no argument '" + name +
         "'; the options are scale, softcap, causal, query_offsets, top_left, window, key_lengths, mask, attention_bias, "
         "alibi_slopes, sinks, packed, dropout")
            .c_str());
  }
}

}  // namespace

Options options_of(const char* function, const nb::kwargs& given) {
  Options result;
  for (const auto& [name, value] : given) {
    const std::string known = nb::cast<std::string>(name);
    if (!value.is_none()) set_option(result, function, known, value);
  }
  return result;
}

LayerCall layer_call_of(const char* function, nb::handle query_offset, nb::handle key_lengths, nb::handle mask,
                        nb::handle attention_bias) {
  LayerCall call;
  if (!query_offset.is_none()) call.options.query_offset = index_of(query_offset, {function, "query_offset"});
  if (!key_lengths.is_none()) call.options.key_lengths = indices_of(key_lengths, {function, "key_lengths"});
  if (!mask.is_none()) call.options.mask = call.arrays.emplace_back(mask, Where{function, "mask"}, Elements::kMask).view();
  if (!attention_bias.is_none()) {
    call.options.attention_bias =
        call.arrays.emplace_back(attention_bias, Where{function, "attention_bias"}, Elements::kAttention).view();
  }
  return call;
}

Index index_of(nb::handle value, const Where& where) {
  if (PyIndex_Check(value.ptr()) == 0 || PyBool_Check(value.ptr()) != 0) refuse(where, "an integer", value);
  const Py_ssize_t number = PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError);
  if (number == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return number;
}

float float_of(nb::handle value, const Where& where) {
  if (PyNumber_Check(value.ptr()) == 0 || PyBool_Check(value.ptr()) != 0) refuse(where, "a number", value);
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return static_cast<float>(number);
}

bool bool_of(nb::handle value, const Where& where) {
  const std::string type = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
  if (PyBool_Check(value.ptr()) == 0 && type != "bool" && type != "bool_") refuse(where, "True or False", value);
  return PyObject_IsTrue(value.ptr()) == 1;
}

std::vector<Index> indices_of(nb::handle values, const Where& where) {
  std::vector<Index> result;
  for_each(values, where, "integers", [&](const nb::object& item) { result.push_back(index_of(item, where)); });
  return result;
}

std::vector<float> floats_of(nb::handle values, const Where& where) {
  std::vector<float> result;
  for_each(values, where, "numbers", [&](const nb::object& item) { result.push_back(float_of(item, where)); });
  return result;
}

Window window_of(nb::handle value, const Where& where) {
  if (!PySequence_Check(value.ptr()) || nb::len(value) != 2) refuse(where, "(left, right), None for an unlimited side", value);
  Window window;
  const nb::object left = value[0], right = value[1];
  if (!left.is_none()) window.left = index_of(left, where);
  if (!right.is_none()) window.right = index_of(right, where);
  return window;
}

nb::object python_window(const std::optional<Window>& window) {
  if (!window) return nb::none();
  const auto side = [](const std::optional<Index>& distance) {
    return distance ? nb::object(nb::int_(*distance)) : nb::none();
  };
  return nb::make_tuple(side(window->left), side(window->right));
}

}  // namespace multihead::python
