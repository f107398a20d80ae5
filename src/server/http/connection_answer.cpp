// How a connection answers: a whole response, or a stream with its pings.
#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <utility>

#include "server/http/connection.h"
#include "server/http/connection_exchange.h"
#include "server/http/wire.h"

namespace baton {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

constexpr size_t kWritePiece = 64 << 10;
// What an idle connection may keep of the room its last answer took.
constexpr size_t kMaxKeptBytes = 64 << 10;

void clear_or_free(std::string& text) {
  text.clear();
  if (text.capacity() > kMaxKeptBytes) text.shrink_to_fit();
}

}  // namespace

void Connection::write_response(HttpResponse response) {
  if (state_ != State::kAnswering) return;
  keep_alive_ = keep_alive_ && !response.close;
  response.headers.insert(response.headers.end(), common_headers_.begin(), common_headers_.end());
  head_ = response_head(
      response, exchange_ ? exchange_->request().id : request_.id, keep_alive_, http_1_0_);
  out_ = head_only_ ? std::string() : std::move(response.body);
  ended_ = true;
  arm_timer(shared_->limits.ping_seconds, &Connection::on_ping_due);
  write();
}

void Connection::begin_stream(const HttpHeaders& headers) {
  if (state_ != State::kAnswering || streaming_) return;
  streaming_ = true;
  if (http_1_0_) keep_alive_ = false;
  HttpHeaders all = headers;
  all.insert(all.end(), common_headers_.begin(), common_headers_.end());
  head_ = stream_head(all, exchange_->request().id, keep_alive_, http_1_0_);
  last_progress_ = steady_clock::now();
  arm_timer(shared_->limits.ping_seconds, &Connection::on_ping_due);
}

void Connection::run_producer() {
  if (!exchange_) return;
  if (writing_now_) {
    producer_due_ = true;
    return;
  }
  producer_due_ = false;
  exchange_->call_producer();
  if (state_ != State::kAnswering || writing_now_ || !streaming_) return;
  if (!head_.empty() || !out_.empty() || ended_) write();
}

void Connection::end_of_stream(bool close_connection) {
  if (close_connection) keep_alive_ = false;
  ended_ = true;
}

void Connection::write() {
  writing_now_ = true;
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
  asio::async_write(
      socket_,
      buffers,
      // Called for every piece the client took.
      [this](const error_code& error, size_t) {
        last_progress_ = steady_clock::now();
        return error ? 0 : kWritePiece;
      },
      [self = shared_from_this()](const error_code& error, size_t) { self->on_written(error); });
}

void Connection::on_written(const error_code& error) {
  if (state_ == State::kClosed) return;
  writing_now_ = false;
  head_.clear();
  if (error) {
    client_gone();
  } else if (ended_) {
    answer_done();
  } else if (producer_due_) {
    run_producer();
  }
}

// Nothing was sent for a while, or a write does not get through.
void Connection::on_ping_due() {
  const HttpLimits& limits = shared_->limits;
  const double silent = std::chrono::duration<double>(steady_clock::now() - last_progress_).count();
  if (writing_now_) {
    if (silent > limits.write_stall_seconds) {
      client_gone();
      return;
    }
  } else if (streaming_ && !ended_ && silent >= limits.ping_seconds * 0.99) {
    out_ += ": ping\n\n";
    write();
  }
  const double wait =
      silent < limits.ping_seconds ? limits.ping_seconds - silent : limits.ping_seconds;
  arm_timer(std::max(wait, 0.01), &Connection::on_ping_due);
}

void Connection::answer_done() {
  stop_timer();
  if (const auto exchange = release_exchange()) exchange->answered();
  clear_or_free(writing_);
  clear_or_free(out_);
  if (!keep_alive_) {
    linger();
    return;
  }
  state_ = State::kReading;
  if (watching_) {
    socket_.cancel();  // on_watched goes on with the next request
  } else {
    read_request();
  }
}

}  // namespace baton
