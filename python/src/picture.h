// Maps as PNG pictures.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "multihead/attention_map.h"

namespace multihead::python {

/// What a notebook shows of a map: every head, estimated where the map is long. None for a map without a coefficient.
nanobind::object notebook_picture(const AttentionMap& map);

/// `picture` and `_repr_png_` of AttentionMap.
void add_picture(nanobind::class_<AttentionMap>& type);

}  // namespace multihead::python
