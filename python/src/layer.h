// Learned parameters as a dict of arrays, by the field names of LayerWeights.
#pragma once

#include <nanobind/nanobind.h>

#include "multihead/layer.h"

namespace multihead::python {

/// Copies every array; what is absent or None is none. TypeError for a name that LayerWeights lacks or for an array that is not
/// float32, float16 or bfloat16.
LayerWeights weights_of(const char* function, const nanobind::dict& arrays);

/// The inverse: NumPy arrays of what is there; they own the weights.
nanobind::dict dict_of(LayerWeights weights);

}  // namespace multihead::python
