#include "lab/server/map_api.h"

#include "lab/server/map_request.h"

namespace multihead::lab {
namespace {

using CaptureHandler = Response (*)(const Captures&, const Request&);

}  // namespace

void add_map_routes(Router& router, const std::shared_ptr<Captures>& captures) {
  router.add("GET", "/api/captures", [captures](const Request&) {
    Json list = Json::array();
    for (const auto& capture : captures->all()) list.push_back(capture_json(*capture));
    return json_response({{"captures", std::move(list)}});
  });
  const auto add = [&](const std::string& pattern, CaptureHandler handler) {
    router.add("GET", pattern, [captures, handler](const Request& request) { return handler(*captures, request); });
  };
  add("/api/captures/{capture}/heads", heads);
  const std::string head = "/api/captures/{capture}/{head}/";
  add(head + "sweep", sweep);
  add(head + "thumbnail", thumbnail);
  add(head + "at", coefficient);
  add(head + "cell", largest_in_cell);
  add(head + "row", row);
  add(head + "column", column);
  add(head + "visible", visible_keys);
  add(head + "figure", figure);
  add("/{capture}/{head}/{z}/{x}/{y}", tile);
}

}  // namespace multihead::lab
