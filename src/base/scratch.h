// Memory that a thread keeps from call to call, so that no call allocates in the steady state.
#pragma once

#include <cstddef>

#include "multihead/export.h"

namespace multihead {

/// At least `count` floats, aligned to 64 bytes, valid until this thread asks again. Contents are whatever was there.
MULTIHEAD_API float* thread_scratch(std::size_t count);

}  // namespace multihead
