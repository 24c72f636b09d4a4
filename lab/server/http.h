// What a handler sees of HTTP: enough to answer, nothing of the library that speaks it.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace multihead::lab {

/// Keys in the order in which they were written: what a person reads in a browser's inspector.
using Json = nlohmann::ordered_json;

struct Request {
  std::string method;  ///< "GET", "POST" …; HEAD comes as GET
  std::string path;
  std::map<std::string, std::string> query;     ///< the parameters after ?, percent signs decoded
  std::map<std::string, std::string> captured;  ///< the {names} of the route
  std::string content_type, accept_language;
  std::string body;

  /// A parameter after ?, or `otherwise`.
  std::string parameter(const std::string& name, const std::string& otherwise = "") const {
    const auto found = query.find(name);
    return found == query.end() ? otherwise : found->second;
  }
};

struct Response {
  int status = 200;
  std::string type = "application/json; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Thrown by a handler: the status, and the text for the person who asked.
struct HttpError {
  int status;
  std::string text;
};

inline Response json_response(const Json& json, int status = 200) {
  return {status, "application/json; charset=utf-8", json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", {}};
}

using Handler = std::function<Response(const Request&)>;

}  // namespace multihead::lab
