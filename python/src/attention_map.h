// Arguments that several functions of a map share.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "array.h"
#include "multihead/attention_map.h"

namespace multihead::python {

/// (begin, end), or `all` for None. TypeError that names the argument for anything else.
IndexRange range_of(nb::handle value, const Where& where, Index all);
/// InvalidArgument for an unknown word.
Pooling pooling_of(const std::string& name, const char* function);

}  // namespace multihead::python
