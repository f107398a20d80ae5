#include "server/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "server/http/connection_exchange.h"
#include "server/http/wire.h"

namespace baton {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

constexpr size_t kReadPiece = 16 << 10;
// What a client may send ahead while its request is answered; it is read so that its leaving
// is seen at once.
constexpr size_t kMaxSentAhead = 64 << 10;

std::chrono::nanoseconds as_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

Connection::Connection(Socket socket, std::shared_ptr<ServerShared> shared)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), shared_(std::move(shared)) {
  ++shared_->connections;
}

Connection::~Connection() {
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
    if (!error && round == self->timer_round_ && !self->closed_) (self.get()->*expired)();
  });
}

// ---- reading -----------------------------------------------------------------------------

void Connection::read_request() {
  if (closed_) return;
  parser_.emplace();
  parser_->header_limit(shared_->limits.max_header_bytes);
  parser_->body_limit(shared_->limits.max_body_bytes);
  exchange_.reset();
  streaming_ = false;
  ended_ = false;
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
  arm_timer(shared_->limits.header_seconds, &Connection::on_request_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, size_t) {
        self->on_header(error);
      });
}

void Connection::on_header(const error_code& error) {
  if (closed_) return;
  if (error) {
    on_read_error(error);
    return;
  }
  body_deadline_ = steady_clock::now() + as_duration(shared_->limits.body_seconds);
  if (const auto expect = parser_->get().find(http::field::expect);
      expect != parser_->get().end() && !parser_->is_done()) {
    send_continue();
    return;
  }
  read_body();
}

void Connection::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_,
                    asio::buffer(kContinue),
                    [self = shared_from_this()](const error_code& error, size_t) {
                      if (error) {
                        self->close();
                        return;
                      }
                      self->read_body();
                    });
}

void Connection::read_body() {
  if (closed_) return;
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
        if (error && !self->closed_) {
          self->on_read_error(error);
          return;
        }
        self->read_body();
      });
}

void Connection::on_read_error(const error_code& error) {
  if (closed_ || error == asio::error::operation_aborted) return;
  if (error == http::error::body_limit) {
    refuse_request(
        413,
        "request body is larger than " + std::to_string(shared_->limits.max_body_bytes) + " bytes");
  } else if (error == http::error::header_limit) {
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

void Connection::refuse_request(int status, const std::string& message) {
  if (closed_ || writing_now_) return;
  keep_alive_ = false;
  const Json error = {{"error",
                       {{"message", message},
                        {"type", status == 503 ? "service_unavailable" : "invalid_request_error"},
                        {"param", nullptr},
                        {"code", status}}}};
  write_response({.status = status, .body = dump_json(error), .close = true});
}

void Connection::dispatch() {
  ++timer_round_;
  timer_.cancel();
  const auto& message = parser_->get();
  keep_alive_ = message.keep_alive();
  http_1_0_ = message.version() < 11;
  head_only_ = message.method() == http::verb::head;
  exchange_ = std::make_shared<ConnectionExchange>(shared_from_this(), request_of(*parser_));
  count_answer(true);
  watch_client();
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  try {
    shared_->handler(exchange);
  } catch (const std::exception& e) {
    log_error(std::string("request ") + exchange->request().id + " failed: " + e.what());
    exchange->respond({.status = 500,
                       .body = R"({"error":{"message":"internal error","type":"internal_error",)"
                               R"("param":null,"code":500}})"});
  }
}

// Reads on while the request is answered: that is how a client that leaves is seen at once.
void Connection::watch_client() {
  if (closed_ || watching_ || buffer_.size() >= kMaxSentAhead) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(kReadPiece),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->watching_ = false;
                            if (self->closed_ || self->lingering_) return;
                            self->buffer_.commit(bytes);
                            const bool answered = self->exchange_ == nullptr;
                            if (error && error != asio::error::operation_aborted) {
                              self->client_gone();
                            } else if (answered) {
                              self->read_request();
                            } else {
                              self->watch_client();
                            }
                          });
}

void Connection::client_gone() {
  if (closed_) return;
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  close();
  if (exchange) exchange->client_gone();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  ++timer_round_;
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  count_answer(false);
  writing_now_ = false;
  // A run of the producer that waited for a write must not be lost: the accounts depend on it.
  const std::shared_ptr<ConnectionExchange> exchange = std::exchange(exchange_, nullptr);
  if (exchange) exchange->wake();
}

// ---- answering ---------------------------------------------------------------------------

void Connection::write_response(HttpResponse response) {
  if (closed_) return;
  keep_alive_ = keep_alive_ && !response.close;
  head_ = response_head(
      response, exchange_ ? exchange_->request().id : std::string(), keep_alive_, http_1_0_);
  out_ = head_only_ ? std::string() : std::move(response.body);
  ended_ = true;
  last_sent_ = steady_clock::now();
  arm_timer(shared_->limits.ping_seconds, &Connection::on_ping_due);
  write(std::move(head_));
}

void Connection::begin_stream(const HttpHeaders& headers) {
  if (closed_ || streaming_) return;
  streaming_ = true;
  if (http_1_0_) keep_alive_ = false;
  head_ = stream_head(headers, exchange_->request().id, keep_alive_, http_1_0_);
  last_sent_ = steady_clock::now();
  arm_timer(shared_->limits.ping_seconds, &Connection::on_ping_due);
}

void Connection::run_producer() {
  if (closed_ || !exchange_) return;
  if (writing_now_) {
    producer_due_ = true;
    return;
  }
  producer_due_ = false;
  exchange_->call_producer();
  if (closed_ || writing_now_ || !streaming_) return;
  if (!head_.empty() || !out_.empty() || ended_) write(std::move(head_));
}

void Connection::end_of_stream(bool close_connection) {
  if (close_connection) keep_alive_ = false;
  ended_ = true;
}

void Connection::write(std::string head) {
  writing_now_ = true;
  head_ = std::move(head);
  writing_.clear();
  writing_.swap(out_);
  std::string_view tail;
  chunk_head_.clear();
  if (streaming_ && !http_1_0_) {
    if (!writing_.empty()) {
      append_chunk_size(chunk_head_, writing_.size());
      tail = "\r\n";
    }
    if (ended_) tail = writing_.empty() ? "0\r\n\r\n" : "\r\n0\r\n\r\n";
  }
  const std::array<asio::const_buffer, 4> buffers = {
      asio::buffer(head_), asio::buffer(chunk_head_), asio::buffer(writing_), asio::buffer(tail)};
  last_sent_ = steady_clock::now();
  asio::async_write(socket_, buffers, [self = shared_from_this()](const error_code& error, size_t) {
    self->on_written(error);
  });
}

void Connection::on_written(const error_code& error) {
  if (closed_) return;
  writing_now_ = false;
  head_.clear();
  if (error) {
    client_gone();
    return;
  }
  if (ended_) {
    answer_done();
    return;
  }
  if (producer_due_) run_producer();
}

// Nothing was sent for a while, or a write does not get through.
void Connection::on_ping_due() {
  const double silent = std::chrono::duration<double>(steady_clock::now() - last_sent_).count();
  const HttpLimits& limits = shared_->limits;
  if (writing_now_) {
    if (silent > limits.write_stall_seconds) {
      client_gone();
      return;
    }
  } else if (streaming_ && !ended_ && silent >= limits.ping_seconds * 0.99) {
    out_ += ": ping\n\n";
    write(std::move(head_));
  }
  const double wait =
      silent < limits.ping_seconds ? limits.ping_seconds - silent : limits.ping_seconds;
  arm_timer(std::max(wait, 0.01), &Connection::on_ping_due);
}

void Connection::answer_done() {
  ++timer_round_;
  timer_.cancel();
  count_answer(false);
  if (exchange_) exchange_->answered();
  exchange_.reset();
  if (!keep_alive_) {
    linger();
  } else if (watching_) {
    socket_.cancel();  // watch_client's handler goes on with the next request
  } else {
    read_request();
  }
}

void Connection::count_answer(bool answering) {
  if (answering == answering_) return;
  answering_ = answering;
  shared_->answering += answering ? 1 : -1;
}

// Closing with unread input resets the connection and may destroy the answer on its way: say
// that we are done, and throw away what comes for a moment.
void Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  lingering_ = true;
  if (watching_) socket_.cancel(ignored);
  arm_timer(1.0, &Connection::close);
  discard_input();
}

void Connection::discard_input() {
  if (closed_) return;
  buffer_.consume(buffer_.size());
  socket_.async_read_some(buffer_.prepare(kReadPiece),
                          [self = shared_from_this()](const error_code& error, size_t) {
                            if (error) {
                              self->close();
                              return;
                            }
                            self->discard_input();
                          });
}

}  // namespace baton
