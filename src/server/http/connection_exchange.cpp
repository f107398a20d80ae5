#include "server/http/connection_exchange.h"

#include <boost/asio/post.hpp>
#include <exception>

#include "base/log.h"

namespace baton {

namespace asio = boost::asio;

void ConnectionExchange::respond(HttpResponse response) {
  asio::post(connection_->socket_.get_executor(),
             [self = shared_from_this(), response = std::move(response)]() mutable {
               if (!self->current() || self->answered_) return;
               self->answered_ = true;
               self->on_disconnect_ = nullptr;
               self->connection_->write_response(std::move(response));
             });
}

void ConnectionExchange::set_producer(std::function<void()> producer) {
  asio::post(connection_->socket_.get_executor(),
             [self = shared_from_this(), producer = std::move(producer)]() mutable {
               self->producer_ = std::move(producer);
               // A wake that came before found nothing to run, and swallowed those behind it.
               if (self->producer_) self->run_producer();
             });
}

void ConnectionExchange::wake() {
  if (wake_posted_.exchange(true)) return;
  asio::post(connection_->socket_.get_executor(), [self = shared_from_this()] {
    self->wake_posted_ = false;
    self->run_producer();
  });
}

void ConnectionExchange::run_producer() {
  if (current()) {
    connection_->run_producer();
  } else {
    call_producer();
  }
}

void ConnectionExchange::set_on_disconnect(std::function<void()> callback) {
  asio::post(connection_->socket_.get_executor(),
             [self = shared_from_this(), callback = std::move(callback)]() mutable {
               if (self->gone_) {
                 if (callback) callback();
               } else if (!self->answered_) {
                 self->on_disconnect_ = std::move(callback);
               }
             });
}

void ConnectionExchange::start_stream(const HttpHeaders& headers) {
  if (current()) connection_->begin_stream(headers);
}

std::string& ConnectionExchange::stream_out() {
  if (current()) return connection_->out_;
  discarded_.clear();
  return discarded_;
}

void ConnectionExchange::end_stream(bool close_connection) {
  if (current()) connection_->end_of_stream(close_connection);
}

void ConnectionExchange::call_producer() {
  // A copy: the producer may reset itself.
  const std::function<void()> producer = producer_;
  if (!producer) return;
  try {
    producer();
  } catch (const std::exception& e) {
    log_error("request " + request_.id + " failed: " + e.what());
    producer_ = nullptr;
    if (current()) connection_->client_gone();
  }
}

void ConnectionExchange::answered() {
  answered_ = true;
  on_disconnect_ = nullptr;
}

void ConnectionExchange::client_gone() {
  if (gone_ || answered_) return;
  gone_ = true;
  const std::function<void()> callback = std::exchange(on_disconnect_, nullptr);
  if (callback) callback();
}

}  // namespace baton
