// Visibility of the public symbols; everything else is hidden.
#pragma once

#if defined(_WIN32)
#define MULTIHEAD_API
#else
#define MULTIHEAD_API __attribute__((visibility("default")))
#endif
