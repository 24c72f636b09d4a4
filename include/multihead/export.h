// Visibility of the public symbols, and of the few functions under src/ that the layer's shared library takes from the op's;
// everything else is hidden.
#pragma once

#if defined(_WIN32)
#define MULTIHEAD_API
#else
#define MULTIHEAD_API __attribute__((visibility("default")))
#endif
