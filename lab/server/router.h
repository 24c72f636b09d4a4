// Which handler answers a path: 404 for paths that nobody has, 405 with the allowed methods for the wrong one.
#pragma once

#include <string>
#include <vector>

#include "lab/server/http.h"

namespace multihead::lab {

class Router {
 public:
  /// `pattern` is a path whose segments are themselves or {names}: "/{capture}/{head}/{z}/{x}/{y}". The first that fits counts.
  void add(const std::string& method, const std::string& pattern, Handler handler);

  /// Never throws: an HttpError becomes its status, InvalidArgument 400, any other failure 500; each {"error": text}.
  Response answer(Request request) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  std::vector<Route> routes_;
};

/// {"error": text}
Response error_response(int status, const std::string& text);

}  // namespace multihead::lab
