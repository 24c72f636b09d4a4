// Building of error texts: "where: expected …; got …".
#pragma once

#include <sstream>
#include <string>

#include "multihead/error.h"

namespace multihead {

/// Everything that streams, joined.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Throws InvalidArgument with the parts as text unless `condition` holds. The text names the function, what was expected, what came.
template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw InvalidArgument(concat(parts...));
}

}  // namespace multihead
