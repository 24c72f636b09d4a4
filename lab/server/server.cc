#include "lab/server/server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "multihead/error.h"

namespace multihead::lab {
namespace {

constexpr char kAddress[] = "127.0.0.1";
constexpr std::size_t kThreads = 4;
constexpr time_t kPatience = 5;  // seconds for a request to arrive

// Nothing but this server's own files runs or loads; nobody frames the page, and no form leaves it.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

httplib::Headers common_headers() {
  return {{"Content-Security-Policy", kContentPolicy},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Permissions-Policy", "camera=(), microphone=(), geolocation=()"},
          {"Cache-Control", "no-store"}};
}

// "127.0.0.1:8080", and the names that mean the same.
bool is_own_host(const httplib::Request& request, int port) {
  if (request.get_header_value_count("Host") != 1) return false;
  const std::string host = request.get_header_value("Host");
  for (const char* name : {kAddress, "localhost", "[::1]"}) {
    if (host == name + (":" + std::to_string(port)) || (port == 80 && host == name)) return true;
  }
  return false;
}

// Browsers say who asks. A link from elsewhere may open the page; a page from elsewhere may not ask for anything.
bool is_foreign(const httplib::Request& request) {
  const std::string site = request.get_header_value("Sec-Fetch-Site");
  if (site.empty() || site == "same-origin" || site == "none") return false;
  return request.get_header_value("Sec-Fetch-Mode") != "navigate" || request.method != "GET";
}

void set(httplib::Response& to, const Response& from) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) to.set_header(name, value);
  to.set_content(from.body, from.type);
}

Request request_of(const httplib::Request& from) {
  Request request;
  request.method = from.method == "HEAD" ? "GET" : from.method;
  request.path = from.path;
  for (const auto& [name, value] : from.params) request.query.emplace(name, value);
  request.content_type = from.get_header_value("Content-Type");
  request.accept_language = from.get_header_value("Accept-Language");
  request.body = from.body;
  return request;
}

std::string status_text(int status) {
  switch (status) {
    case 400:
      return "the request is not HTTP as this server knows it";
    case 413:
      return "expected a body of at most " + std::to_string(kMaxBody) + " bytes";
    case 414:
      return "the address is too long";
    default:
      return "the request could not be answered";
  }
}

}  // namespace

struct Server::State {
  Router router;
  httplib::Server http;
  int port = 0;
  std::atomic<bool> stopped{false};
};

Server::Server(Router router, int port) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.router = std::move(router);
  httplib::Server& http = state.http;
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http.set_default_headers(common_headers());
  http.set_payload_max_length(kMaxBody);
  http.set_read_timeout(kPatience);
  http.set_write_timeout(kPatience);
  // One request a connection: a waiting connection would keep a thread, and a refused body is never read as a request.
  http.set_keep_alive_max_count(1);
  http.set_tcp_nodelay(true);
  // httplib's own choice would let two servers share a port.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  http.set_pre_routing_handler([&state](const httplib::Request& request, httplib::Response& response) {
    if (!is_own_host(request, state.port)) {
      set(response, error_response(403, "this server answers to its own address only"));
    } else if (is_foreign(request)) {
      set(response, error_response(403, "this server answers to its own pages only"));
    } else {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) set(response, error_response(response.status, status_text(response.status)));
  });
  const auto handle = [&state](const httplib::Request& request, httplib::Response& response) {
    set(response, state.router.answer(request_of(request)));
  };
  constexpr char kEverything[] = "[^]*";
  http.Get(kEverything, handle);
  http.Post(kEverything, handle);
  http.Put(kEverything, handle);
  http.Patch(kEverything, handle);
  http.Delete(kEverything, handle);
  http.Options(kEverything, handle);

  errno = 0;
  state.port = port == 0 ? http.bind_to_any_port(kAddress) : (http.bind_to_port(kAddress, port) ? port : -1);
  if (state.port < 0) {
    const int reason = errno;
    throw IoError("lab: cannot listen on " + std::string(kAddress) + ":" + std::to_string(port) + ": " + std::strerror(reason) +
                  " (--port 0 takes a free port)");
  }
}

Server::~Server() = default;

int Server::port() const { return state_->port; }

std::string Server::address() const { return "http://" + std::string(kAddress) + ":" + std::to_string(port()) + "/"; }

void Server::serve() {
  if (!state_->stopped) state_->http.listen_after_bind();
}

void Server::stop() {
  state_->stopped = true;
  state_->http.stop();
}

}  // namespace multihead::lab
