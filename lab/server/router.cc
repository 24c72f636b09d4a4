#include "lab/server/router.h"

#include <new>
#include <optional>

#include "multihead/error.h"

namespace multihead::lab {
namespace {

std::vector<std::string> segments_of(const std::string& path) {
  std::vector<std::string> segments;
  std::size_t begin = 1;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    segments.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return segments;
}

// The values of the {names} when the path fits.
std::optional<std::map<std::string, std::string>> match(const std::vector<std::string>& pattern,
                                                        const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::map<std::string, std::string> captured;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i].size() > 2 && pattern[i].front() == '{') {
      if (path[i].empty()) return std::nullopt;
      captured[pattern[i].substr(1, pattern[i].size() - 2)] = path[i];
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return captured;
}

Response call(const Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const HttpError& error) {
    return error_response(error.status, error.text);
  } catch (const InvalidArgument& error) {
    return error_response(400, error.what());
  } catch (const std::bad_alloc&) {
    return error_response(503, "not enough memory for this request");
  } catch (const std::exception& error) {
    return error_response(500, error.what());
  }
}

}  // namespace

void Router::add(const std::string& method, const std::string& pattern, Handler handler) {
  routes_.push_back({method, segments_of(pattern), std::move(handler)});
}

Response Router::answer(Request request) const {
  const std::vector<std::string> path = segments_of(request.path);
  std::string allowed;
  for (const Route& route : routes_) {
    auto captured = match(route.segments, path);
    if (!captured) continue;
    if (route.method == request.method) {
      request.captured = std::move(*captured);
      return call(route.handler, request);
    }
    if (allowed.find(route.method) == std::string::npos) allowed += (allowed.empty() ? "" : ", ") + route.method;
  }
  if (allowed.empty()) return error_response(404, "nothing is at " + request.path);
  Response response = error_response(405, request.path + ": expected " + allowed + "; got " + request.method);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

Response error_response(int status, const std::string& text) { return json_response({{"error", text}}, status); }

}  // namespace multihead::lab
