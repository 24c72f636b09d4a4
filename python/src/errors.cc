#include "module.h"
#include "multihead/attention_map.h"
#include "multihead/error.h"

namespace multihead::python {

// Derived from the exceptions that a Python program expects, so that either can be caught.
void add_errors(nb::module_& module) {
  const nb::object value_error = nb::module_::import_("builtins").attr("ValueError");
  const nb::object os_error = nb::module_::import_("builtins").attr("OSError");
  const nb::object runtime_error = nb::module_::import_("builtins").attr("RuntimeError");
  // The last one that is registered is asked first: the base comes first.
  const nb::exception<Error> base(module, "Error", runtime_error);
  const nb::exception<InvalidArgument> invalid(module, "InvalidArgument", value_error);
  const nb::exception<FormatError> format(module, "FormatError", value_error);
  const nb::exception<IoError> io(module, "IoError", os_error);
  const nb::exception<Cancelled> cancelled(module, "Cancelled", runtime_error);
  base.attr("__doc__") = "Another error of the library.";
  invalid.attr("__doc__") = "A shape, option or combination that has no meaning. Nothing has been written.";
  format.attr("__doc__") = "A file was read, but its content breaks the rules of its format.";
  io.attr("__doc__") = "The operating system refused: a file that is missing, unreadable, or a disk that is full.";
  cancelled.attr("__doc__") = "A progress callback returned False. Nothing was lost but the work.";
}

}  // namespace multihead::python
