// The machine: which instruction sets the library can use here, and how many threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.h"

namespace multihead {

/// Library version, "major.minor.patch".
MULTIHEAD_API std::string version();

/// Instruction sets that are compiled in and run on this CPU, best first. Names are Highway's: "AVX3", "AVX2", "NEON" …
MULTIHEAD_API std::vector<std::string> targets();

/// The one in use. The environment variable MULTIHEAD_TARGET chooses it at start; otherwise the best. Throws InvalidArgument,
/// as does every call that computes, when that variable names a target that is not here.
MULTIHEAD_API std::string active_target();

/// Use this target from now on, in the whole process ("auto" = the best). Not while another thread computes.
/// Throws InvalidArgument with the list of names for one that is not available.
MULTIHEAD_API void force_target(std::string_view name);

/// Threads that a call may use. Default: MULTIHEAD_THREADS, else what OpenMP gives. Results do not depend on it.
MULTIHEAD_API int num_threads();

/// At least 1; 0 returns to the default. Throws InvalidArgument for a negative number.
MULTIHEAD_API void set_num_threads(int threads);

}  // namespace multihead
