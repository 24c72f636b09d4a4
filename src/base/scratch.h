// Memory that a thread keeps from call to call, so that no call allocates in the steady state.
#pragma once

#include <cstddef>

namespace multihead {

/// At least `count` floats, aligned to 64 bytes, valid until this thread asks again. Contents are whatever was there.
float* thread_scratch(std::size_t count);

}  // namespace multihead
