// What the addresses of captures have in common: the capture, the head, and numbers in range.
#pragma once

#include "lab/server/captures.h"
#include "lab/server/http.h"

namespace multihead::lab {

struct Place {
  OpenCapture& capture;
  Index head;
};

/// The {capture} and {head} of an address. HttpError 404 when they are not there.
OpenCapture& capture_of(const Captures& captures, const Request& request);
Place place_of(const Captures& captures, const Request& request);
/// A {name} of the route as a number; HttpError 404 when it is none.
Index integer_segment(const Request& request, const std::string& name);
/// A parameter that must be given, 0 … end - 1. Throws InvalidArgument that names it.
Index index_parameter(const Request& request, const std::string& name, Index end);
/// Operations of the scores of a rectangle.
double operations_of(const AttentionMap& map, IndexRange rows, IndexRange keys);

Response tile(const Captures& captures, const Request& request);
Response thumbnail(const Captures& captures, const Request& request);
Response heads(const Captures& captures, const Request& request);
Response sweep(const Captures& captures, const Request& request);
Response coefficient(const Captures& captures, const Request& request);
Response largest_in_cell(const Captures& captures, const Request& request);
Response row(const Captures& captures, const Request& request);
Response column(const Captures& captures, const Request& request);
Response visible_keys(const Captures& captures, const Request& request);
Response figure(const Captures& captures, const Request& request);
Json capture_json(const OpenCapture& open);

}  // namespace multihead::lab
