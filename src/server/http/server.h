// The HTTP/1.1 server: accepts connections on one address and hands each request to one
// handler. A few threads share all connections; nothing here blocks them. Malformed input ends
// at most its own connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/exchange.h"

namespace baton {

struct HttpLimits {
  size_t max_body_bytes = size_t{64} << 20;  // agents send MBs; beyond it 413 while reading
  uint32_t max_header_bytes = 64 << 10;
  int max_connections = 8192;
  double header_seconds = 30.0;  // for a request head, from its first byte
  double idle_seconds = 120.0;   // between requests of one connection
  double body_stall_seconds = 30.0;
  double body_seconds = 600.0;  // for a whole body
  double write_stall_seconds = 120.0;
  double ping_seconds = 10.0;  // comments on a silent stream
};

struct HttpAddress {
  std::string host = "0.0.0.0";  // name or address
  uint16_t port = 8000;          // 0: any free one
  std::string unix_socket;       // instead of host and port

  std::string name() const;  // "[::1]:8000", or the path
};

class HttpServer {
 public:
  // Binds and starts `threads` threads. The error names the address and why. `refuse_early` and
  // `common_headers` may be empty.
  static Result<std::unique_ptr<HttpServer>> open(const HttpAddress& address,
                                                  const HttpLimits& limits,
                                                  int threads,
                                                  HttpHandler handler,
                                                  HttpRefusal refuse_early = {},
                                                  HttpCommonHeaders common_headers = {});
  virtual ~HttpServer() = default;  // as stop()

  virtual uint16_t port() const = 0;  // the bound one; 0 for a Unix socket
  virtual int connections() const = 0;
  virtual int answering() const = 0;  // requests not yet answered in full
  // Closes the listener and every connection, and joins the threads. Idempotent.
  virtual void stop() = 0;
};

}  // namespace baton
