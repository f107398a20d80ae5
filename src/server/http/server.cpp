#include "server/http/server.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <filesystem>
#include <map>
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

struct Listener {
  asio::generic::stream_protocol::endpoint endpoint;
  std::string name;
};

Result<Listener> resolve(const HttpAddress& address, asio::io_context& context) {
  if (!address.unix_socket.empty()) {
    if (address.unix_socket.size() > 100) {
      return invalid_argument("--uds " + address.unix_socket + ": path is longer than 100 bytes");
    }
    return Listener{asio::local::stream_protocol::endpoint(address.unix_socket),
                    address.unix_socket};
  }
  const std::string name = address.host + ":" + std::to_string(address.port);
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(
      address.host, std::to_string(address.port), asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) {
    return invalid_argument("cannot listen on " + name + ": " + error.message());
  }
  return Listener{found.begin()->endpoint(), name};
}

class AsioServer final : public HttpServer {
 public:
  AsioServer(const HttpLimits& limits, HttpHandler handler)
      : shared_(std::make_shared<ServerShared>()),
        work_(asio::make_work_guard(context_)),
        acceptor_(asio::make_strand(context_)),
        retry_(acceptor_.get_executor()) {
    shared_->limits = limits;
    shared_->handler = std::move(handler);
  }

  ~AsioServer() override { stop(); }

  Status listen(const HttpAddress& address) {
    Result<Listener> listener = resolve(address, context_);
    if (!listener) return listener.error();
    error_code error;
    acceptor_.open(listener->endpoint.protocol(), error);
    if (!error && address.unix_socket.empty()) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) acceptor_.bind(listener->endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return invalid_argument("cannot listen on " + listener->name + ": " + error.message());
    }
    unix_socket_ = address.unix_socket;
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
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [key, weak] : open_) {
        if (const auto connection = weak.lock()) connection->shut();
      }
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    if (!unix_socket_.empty()) {
      std::error_code ignored;
      std::filesystem::remove(unix_socket_, ignored);
    }
  }

 private:
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
                             if (error == asio::error::operation_aborted) return;
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
      if (!error) accept();
    });
  }

  void adopt(Connection::Socket socket) {
    if (unix_socket_.empty()) {
      error_code ignored;
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    }
    const bool full = shared_->connections >= shared_->limits.max_connections;
    const auto connection = std::make_shared<Connection>(std::move(socket), shared_);
    {
      const std::scoped_lock lock(mutex_);
      if (stopped_) return;
      std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
      open_[connection.get()] = connection;
    }
    if (full) {
      connection->refuse();
    } else {
      connection->start();
    }
  }

  asio::io_context context_;
  std::shared_ptr<ServerShared> shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  std::string unix_socket_;
  std::mutex mutex_;
  std::map<Connection*, std::weak_ptr<Connection>> open_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpAddress& address,
                                                     const HttpLimits& limits,
                                                     int threads,
                                                     HttpHandler handler) {
  auto server = std::make_unique<AsioServer>(limits, std::move(handler));
  if (Status status = server->listen(address); !status) return status.error();
  server->start(threads);
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace baton
