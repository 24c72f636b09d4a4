// Progress of long work, told to a Python function; and Ctrl+C during it.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "multihead/attention_map.h"

namespace multihead::python {

/// A Progress that calls `function` (None: nobody) with the share done and ends the work when it returns False, raises, or a
/// signal handler raises (Ctrl+C). The exception goes on to the caller: rethrow() after the work.
class PythonProgress {
 public:
  explicit PythonProgress(nanobind::handle function) : function_(nanobind::borrow(function)) {}

  Progress callback();
  /// Runs work without the GIL with a Progress; an exception of the Python function takes the place of Cancelled.
  template <typename Work>
  auto run(const Work& work) {
    try {
      const nanobind::gil_scoped_release release;
      return work(callback());
    } catch (const Cancelled&) {
      if (error_) throw std::move(*error_);
      throw;
    }
  }

 private:
  nanobind::object function_;
  std::optional<nanobind::python_error> error_;
};

}  // namespace multihead::python
