// Building of error texts: "where: expected …; got …".
#pragma once

#include <ostream>
#include <sstream>
#include <string>

#include "multihead/error.h"
#include "multihead/tensor.h"

namespace multihead {

/// Shapes stream as "[2, 3, 4]", so that a check that holds builds no text.
inline std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

/// Everything that streams, joined.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Throws InvalidArgument with the parts as text unless `condition` holds. The text names the function, what was expected, what
/// came.
template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw InvalidArgument(concat(parts...));
}

}  // namespace multihead
