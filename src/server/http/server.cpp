#include "server/http/server.h"

#include <netinet/tcp.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "server/http/connection.h"

namespace baton {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

std::string without_brackets(const std::string& host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

using Endpoint = asio::generic::stream_protocol::endpoint;

constexpr size_t kMaxSocketPath = 100;

// A client that vanished without a word (a laptop asleep, a route lost) ends its generation too.
constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveProbeSeconds = 10;
constexpr int kKeepAliveProbes = 6;

void notice_lost_peer(int socket) {
  for (const auto& [level, option, value] : {std::array{SOL_SOCKET, SO_KEEPALIVE, 1},
                                             {IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds},
                                             {IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveProbeSeconds},
                                             {IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes}}) {
    setsockopt(socket, level, option, &value, sizeof value);
  }
}

Error cannot_listen(const HttpAddress& address, const error_code& error) {
  return invalid_argument("cannot listen on " + address.name() + ": " + error.message());
}

// A name may stand for several addresses, in the order of preference.
Result<std::vector<Endpoint>> resolve(const HttpAddress& address, asio::io_context& context) {
  if (!address.unix_socket.empty()) {
    if (address.unix_socket.size() > kMaxSocketPath) {
      return invalid_argument("--uds " + address.unix_socket + ": path is longer than " +
                              std::to_string(kMaxSocketPath) + " bytes");
    }
    return std::vector<Endpoint>{asio::local::stream_protocol::endpoint(address.unix_socket)};
  }
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(without_brackets(address.host),
                                      std::to_string(address.port),
                                      asio::ip::tcp::resolver::passive,
                                      error);
  if (error) return cannot_listen(address, error);
  std::vector<Endpoint> endpoints;
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  return endpoints;
}

// The socket file of a server that was killed: nobody listens behind it.
bool is_left_over(const std::string& path, asio::io_context& context) {
  std::error_code no_file;
  if (!std::filesystem::is_socket(path, no_file)) return false;
  asio::local::stream_protocol::socket probe(context);
  error_code error;
  probe.open({}, error);
  if (!error) probe.non_blocking(true, error);
  if (!error) probe.connect(path, error);
  return error == asio::error::connection_refused;
}

class AsioServer final : public HttpServer {
 public:
  explicit AsioServer(std::shared_ptr<ServerShared> shared)
      : shared_(std::move(shared)),
        work_(asio::make_work_guard(context_)),
        strand_(asio::make_strand(context_)),
        acceptor_(strand_),
        retry_(strand_) {}

  ~AsioServer() override {
    try {
      stop();
    } catch (const std::exception& e) {
      log_error(std::string("http: ") + e.what());
    }
  }

  Status listen(const HttpAddress& address) {
    Result<std::vector<Endpoint>> endpoints = resolve(address, context_);
    if (!endpoints) return endpoints.error();
    const std::string& path = address.unix_socket;
    error_code error;
    for (const Endpoint& endpoint : *endpoints) {
      error = listen_on(endpoint);
      if (error == asio::error::address_in_use && is_left_over(path, context_)) {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
        error = listen_on(endpoint);
      }
      // "localhost" may name an IPv6 address that this machine does not have.
      if (error != boost::system::errc::address_not_available &&
          error != boost::system::errc::address_family_not_supported) {
        break;
      }
    }
    if (error) return cannot_listen(address, error);
    unix_socket_ = path;
    if (unix_socket_.empty()) port_ = bound_port();
    return {};
  }

  void start(int threads) {
    accept();
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { run(); });
    }
  }

  uint16_t port() const override { return port_; }
  int connections() const override { return shared_->connections; }
  int answering() const override { return shared_->answering; }

  void stop() override {
    if (stopped_) return;
    stopped_ = true;
    asio::post(strand_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
    for (const auto& connection : open_connections()) connection->shut();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    if (!unix_socket_.empty()) {
      std::error_code ignored;
      std::filesystem::remove(unix_socket_, ignored);
    }
  }

 private:
  error_code listen_on(const Endpoint& endpoint) {
    error_code error, ignored;
    acceptor_.close(ignored);
    acceptor_.open(endpoint.protocol(), error);
    if (!error && endpoint.protocol().family() != AF_UNIX) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }

  std::vector<std::shared_ptr<Connection>> open_connections() {
    std::vector<std::shared_ptr<Connection>> open;
    const std::scoped_lock lock(shared_->mutex);
    for (const auto& [key, weak] : shared_->open) {
      if (auto connection = weak.lock()) open.push_back(std::move(connection));
    }
    return open;
  }

  void run() {
    while (true) {
      try {
        context_.run();
        return;
      } catch (const std::exception& e) {
        log_error(std::string("http: ") + e.what());
      }
    }
  }

  uint16_t bound_port() {
    error_code error;
    const auto endpoint = acceptor_.local_endpoint(error);
    if (error) return 0;
    if (endpoint.data()->sa_family == AF_INET6) {
      return ntohs(reinterpret_cast<const sockaddr_in6*>(endpoint.data())->sin6_port);
    }
    return ntohs(reinterpret_cast<const sockaddr_in*>(endpoint.data())->sin_port);
  }

  void accept() {
    acceptor_.async_accept(asio::make_strand(context_),
                           [this](const error_code& error, auto socket) {
                             if (!acceptor_.is_open()) return;
                             if (error) {
                               wait_and_accept();
                               return;
                             }
                             adopt(Connection::Socket(std::move(socket)));
                             accept();
                           });
  }

  // Out of file descriptors, most likely: nothing is lost by waiting a little.
  void wait_and_accept() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([this](const error_code& error) {
      if (!error && acceptor_.is_open()) accept();
    });
  }

  void adopt(Connection::Socket socket) {
    if (unix_socket_.empty()) {
      error_code ignored;
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      notice_lost_peer(socket.native_handle());
    }
    const bool full = shared_->connections >= shared_->limits.max_connections;
    const auto connection = std::make_shared<Connection>(std::move(socket), shared_);
    {
      const std::scoped_lock lock(shared_->mutex);
      if (stopped_) return;
      shared_->open[connection.get()] = connection;
    }
    if (full) {
      connection->refuse();
    } else {
      connection->start();
    }
  }

  asio::io_context context_;
  const std::shared_ptr<ServerShared> shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::strand<asio::io_context::executor_type> strand_;  // of the listener
  Acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  std::string unix_socket_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

std::string HttpAddress::name() const {
  if (!unix_socket.empty()) return unix_socket;
  const std::string bare = without_brackets(host);
  const bool is_ipv6 = bare.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + bare + "]" : bare) + ":" + std::to_string(port);
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpAddress& address,
                                                     const HttpLimits& limits,
                                                     int threads,
                                                     HttpHandler handler,
                                                     HttpRefusal refuse_early,
                                                     HttpCommonHeaders common_headers) {
  auto shared = std::make_shared<ServerShared>();
  shared->limits = limits;
  shared->handler = std::move(handler);
  shared->refuse_early = std::move(refuse_early);
  shared->common_headers = std::move(common_headers);
  auto server = std::make_unique<AsioServer>(std::move(shared));
  if (Status status = server->listen(address); !status) return status.error();
  server->start(threads);
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace baton
