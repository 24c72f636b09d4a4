// The lab's HTTP server: loopback only, for the browser of the person who started it.
#pragma once

#include <memory>
#include <string>

#include "lab/server/router.h"

namespace multihead::lab {

/// What a request may cost before a handler sees it.
constexpr std::size_t kMaxBody = 64 * 1024;

/// Serves a router on 127.0.0.1. It refuses what no page of its own sends: Host headers that are not this address (a name that
/// was rebound to it), and requests for data that another site's page makes.
class Server {
 public:
  /// Binds; 0 takes a free port. Throws IoError with the system's reason.
  Server(Router router, int port);
  ~Server();

  int port() const;
  std::string address() const;  ///< "http://127.0.0.1:8080/"
  /// Answers until stop(). Requests in progress are finished.
  void serve();
  /// From any thread; may come before serve().
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace multihead::lab
