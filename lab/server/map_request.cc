#include "lab/server/map_request.h"

#include <charconv>

#include "lab/server/lab_api.h"
#include "multihead/error.h"

namespace multihead::lab {

Index integer_segment(const Request& request, const std::string& name) {
  const std::string& text = request.captured.at(name);
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw HttpError{404, "nothing is at " + request.path};
  return value;
}

OpenCapture& capture_of(const Captures& captures, const Request& request) {
  OpenCapture* const capture = captures.find(request.captured.at("capture"));
  if (capture == nullptr) throw HttpError{404, "no capture " + request.captured.at("capture") + " is open"};
  return *capture;
}

Place place_of(const Captures& captures, const Request& request) {
  OpenCapture& capture = capture_of(captures, request);
  const Index head = integer_segment(request, "head");
  if (head < 0 || head >= capture.map().num_heads()) {
    throw HttpError{404, "capture " + capture.id() + " has heads 0 to " + std::to_string(capture.map().num_heads() - 1)};
  }
  return {capture, head};
}

Index index_parameter(const Request& request, const std::string& name, Index end) {
  if (!request.query.contains(name) || end <= 0)
    throw InvalidArgument(name + ": expected a whole number below " + std::to_string(end));
  return integer_parameter(request, name, 0, 0, end - 1);
}

double operations_of(const AttentionMap& map, IndexRange rows, IndexRange keys) {
  return 2 * static_cast<double>(rows.size()) * static_cast<double>(keys.size()) *
         static_cast<double>(map.capture().head_dim());
}

}  // namespace multihead::lab
