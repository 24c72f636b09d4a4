// The errors of the public boundary. Everything the library throws on purpose derives from multihead::Error; the text
// names the function, what was expected and what came.
#pragma once

#include <stdexcept>
#include <string>

#include "multihead/export.h"

namespace multihead {

/// Base of every error that the library throws on purpose.
class MULTIHEAD_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's fault: a shape, dtype, option or combination that has no meaning. Nothing has been written.
class MULTIHEAD_API InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// A file was read but its content breaks the rules of its format.
class MULTIHEAD_API FormatError : public Error {
 public:
  using Error::Error;
};

/// The operating system refused: a file that is missing, unreadable, or a disk that is full.
class MULTIHEAD_API IoError : public Error {
 public:
  using Error::Error;
};

}  // namespace multihead
