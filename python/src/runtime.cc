#include "multihead/runtime.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "module.h"

namespace multihead::python {

void add_runtime(nb::module_& module) {
  module.def("version", &version, R"(Library version, "major.minor.patch".)");
  module.def("targets", &targets,
             R"(Instruction sets that are compiled in and run on this CPU, best first: "AVX3", "AVX2", "NEON" …)");
  module.def("active_target", &active_target,
             "The instruction set in use. The environment variable MULTIHEAD_TARGET chooses it at start; otherwise the best.");
  module.def(
      "force_target", &force_target, nb::arg("name"),
      R"(Use this instruction set from now on, in the whole process ("auto" = the best). Not while another thread computes.

Raises InvalidArgument, with the list of names, for one that is not available.)");
  module.def("num_threads", &num_threads,
             "Threads that a call may use. Default: MULTIHEAD_THREADS, else what OpenMP gives. Results do not depend on it.");
  module.def("set_num_threads", &set_num_threads, nb::arg("threads"),
             "At least 1; 0 returns to the default. Raises InvalidArgument for a negative number.");
}

}  // namespace multihead::python
