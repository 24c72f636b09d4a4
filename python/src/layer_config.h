// Fields of a configuration as keyword arguments.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "module.h"

namespace multihead::python {

/// __init__ of a struct whose fields are bound: every field may be given by name. TypeError for a name that is none.
template <typename Struct>
void init_from_fields(nb::pointer_and_handle<Struct> self, const nb::kwargs& fields) {
  new (self.p) Struct();
  nb::inst_mark_ready(self.h);
  for (const auto& [name, value] : fields) {
    if (!nb::hasattr(self.h, name)) {
      const std::string type = nb::cast<std::string>(nb::str(nb::handle(self.h.type()).attr("__name__")));
      throw nb::type_error((type + ": no field '" + nb::cast<std::string>(name) + "'").c_str());
    }
    nb::setattr(self.h, name, value);
  }
}

}  // namespace multihead::python
