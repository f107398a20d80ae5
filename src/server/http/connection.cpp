#include "server/http/connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "server/http/connection_exchange.h"
#include "server/http/wire.h"

namespace baton {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

constexpr size_t kReadPiece = 16 << 10;
// What a client may send ahead while its request is answered; it is read so that its leaving
// is seen at once.
constexpr size_t kMaxSentAhead = 64 << 10;
constexpr double kLingerSeconds = 1.0;

std::chrono::nanoseconds as_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

// The buffer holds a head, or what was sent ahead; the parser alone would let a chunk's extensions
// or trailers grow without end.
Connection::Connection(Socket socket, std::shared_ptr<ServerShared> shared)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      shared_(std::move(shared)),
      buffer_(shared_->limits.max_header_bytes + kMaxSentAhead + kReadPiece) {
  ++shared_->connections;
}

Connection::~Connection() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->open.erase(this);
  }
  --shared_->connections;
}

void Connection::start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->read_request(); });
}

void Connection::shut() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->client_gone(); });
}

void Connection::refuse() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this()] { self->refuse_request(503, "too many connections"); });
}

void Connection::arm_timer(double seconds, void (Connection::*expired)()) {
  const uint64_t round = ++timer_round_;
  timer_.expires_after(as_duration(seconds));
  timer_.async_wait([self = shared_from_this(), round, expired](const error_code& error) {
    if (!error && round == self->timer_round_) (self.get()->*expired)();
  });
}

void Connection::stop_timer() {
  ++timer_round_;
  timer_.cancel();
}

// ---- reading -----------------------------------------------------------------------------

void Connection::read_request() {
  if (state_ == State::kClosed) return;
  state_ = State::kReading;
  parser_.emplace();
  parser_->header_limit(shared_->limits.max_header_bytes);
  parser_->body_limit(shared_->limits.max_body_bytes);
  request_ = {};
  common_headers_.clear();
  http_1_0_ = head_only_ = streaming_ = ended_ = false;
  if (buffer_.size() > 0) {
    read_header();
    return;
  }
  // Between requests a connection may idle; from the first byte on the head has to come.
  arm_timer(shared_->limits.idle_seconds, &Connection::close);
  socket_.async_read_some(buffer_.prepare(kReadPiece),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            if (error) {
                              self->close();
                              return;
                            }
                            self->buffer_.commit(bytes);
                            self->read_header();
                          });
}

void Connection::read_header() {
  if (state_ != State::kReading) return;
  arm_timer(shared_->limits.header_seconds, &Connection::on_request_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
        self->on_header(error);
      });
}

void Connection::on_header(const error_code& error) {
  if (state_ != State::kReading) return;
  const bool too_large = error == http::error::body_limit;  // the head is there all the same
  if (error && !too_large) {
    on_read_error(error);
    return;
  }
  const auto& message = parser_->get();
  request_ = request_of(message);
  if (shared_->common_headers) common_headers_ = shared_->common_headers(request_);
  http_1_0_ = message.version() < 11;
  head_only_ = message.method() == http::verb::head;
  if (too_large) {
    on_read_error(error);
    return;
  }
  if (refuses_header()) return;
  body_deadline_ = steady_clock::now() + as_duration(shared_->limits.body_seconds);
  if (!parser_->is_done() && !http_1_0_ &&
      beast::iequals(message[http::field::expect], "100-continue")) {
    send_continue();
  } else {
    read_body();
  }
}

// What can be said before the body comes: a client that waits for leave need not send it.
bool Connection::refuses_header() {
  if (const auto coding = parser_->get().find(http::field::transfer_encoding);
      coding != parser_->get().end() && !beast::iequals(coding->value(), "chunked")) {
    refuse_request(501, "transfer-encoding: expected chunked or none");
    return true;
  }
  if (parser_->is_done() || !shared_->refuse_early) return false;
  std::optional<HttpResponse> refusal = shared_->refuse_early(request_);
  if (refusal) refuse_request(std::move(*refusal));
  return refusal.has_value();
}

void Connection::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_,
                    asio::buffer(kContinue),
                    [self = shared_from_this()](const error_code& error, size_t) {
                      if (error) {
                        self->on_read_error(error);
                      } else {
                        self->read_body();
                      }
                    });
}

void Connection::read_body() {
  if (state_ != State::kReading) return;
  if (parser_->is_done()) {
    dispatch();
    return;
  }
  if (steady_clock::now() > body_deadline_) {
    on_request_timeout();
    return;
  }
  arm_timer(shared_->limits.body_stall_seconds, &Connection::on_request_timeout);
  http::async_read_some(
      socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
        if (error) {
          self->on_read_error(error);
        } else {
          self->read_body();
        }
      });
}

void Connection::on_read_error(const error_code& error) {
  if (state_ != State::kReading) return;
  if (error == http::error::body_limit) {
    refuse_request(
        413,
        "request body is larger than " + std::to_string(shared_->limits.max_body_bytes) + " bytes");
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    refuse_request(431,
                   "request head is larger than " +
                       std::to_string(shared_->limits.max_header_bytes) + " bytes");
  } else if (error.category() == make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    refuse_request(400, "malformed HTTP request: " + error.message());
  } else {
    close();
  }
}

void Connection::on_request_timeout() {
  refuse_request(408, "the request did not arrive in time");
}

void Connection::dispatch() {
  stop_timer();
  state_ = State::kAnswering;
  keep_alive_ = parser_->get().keep_alive();
  request_.arrival = steady_clock::now();
  exchange_ = std::make_shared<ConnectionExchange>(
      shared_from_this(), std::move(request_), std::move(parser_->get().body()));
  ++shared_->answering;
  watch_client();
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  try {
    shared_->handler(exchange);
  } catch (const std::exception& e) {
    log_error(std::string("request ") + exchange->request().id + " failed: " + e.what());
    exchange->respond({.status = 500,
                       .body = R"({"error":{"message":"internal error","type":"internal_error",)"
                               R"("param":null,"code":"internal_error"}})"});
  }
}

// Reads on while the request is answered: that is how a client that leaves is seen at once.
void Connection::watch_client() {
  if (watching_ || buffer_.size() >= kMaxSentAhead) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(kReadPiece),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->watching_ = false;
                            self->on_watched(error, bytes);
                          });
}

void Connection::on_watched(const error_code& error, size_t bytes) {
  if (state_ == State::kLingering || state_ == State::kClosed) return;
  buffer_.commit(bytes);
  if (error && error != asio::error::operation_aborted) {
    client_gone();
  } else if (state_ == State::kReading) {
    read_request();
  } else {
    watch_client();
  }
}

// ---- ending ------------------------------------------------------------------------------

void Connection::refuse_request(int status, const std::string& message) {
  const Json error = {
      {"error",
       {{"message", message},
        {"type", status == 503 ? "service_unavailable_error" : "invalid_request_error"},
        {"param", nullptr},
        {"code", nullptr}}}};
  refuse_request({.status = status, .body = dump_json(error)});
}

void Connection::refuse_request(HttpResponse response) {
  if (state_ != State::kReading) return;
  state_ = State::kAnswering;
  error_code ignored;
  socket_.cancel(ignored);  // the rest of the request is not wanted
  response.close = true;
  write_response(std::move(response));
}

void Connection::client_gone() {
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  close();
  if (exchange) exchange->client_gone();
}

// Closing with unread input resets the connection and may destroy the answer on its way: say
// that we are done, and throw away what comes for a moment.
void Connection::linger() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  socket_.cancel(ignored);
  arm_timer(kLingerSeconds, &Connection::close);
  writing_.resize(kReadPiece);  // nothing is written any more: room for what is thrown away
  discard_input();
}

void Connection::discard_input() {
  if (state_ == State::kClosed) return;
  socket_.async_read_some(asio::buffer(writing_),
                          [self = shared_from_this()](const error_code& error, size_t) {
                            if (error) {
                              self->close();
                            } else {
                              self->discard_input();
                            }
                          });
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  stop_timer();
  error_code ignored;
  socket_.close(ignored);
  writing_now_ = false;
  // A run of the producer that waited for a write must not be lost: the accounts depend on it.
  if (const auto exchange = release_exchange()) exchange->wake();
}

std::shared_ptr<ConnectionExchange> Connection::release_exchange() {
  if (exchange_) --shared_->answering;
  return std::exchange(exchange_, nullptr);
}

}  // namespace baton
