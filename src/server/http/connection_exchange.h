// Exchange over a Connection. Calls from other threads become posts to the strand.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/connection.h"

namespace baton {

class ConnectionExchange final : public Exchange,
                                 public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, HttpRequest request, std::string body)
      : connection_(std::move(connection)), request_(std::move(request)), body_(std::move(body)) {}

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::exchange(body_, {}); }
  bool abandoned() const override { return gone_; }
  void respond(HttpResponse response) override;
  void set_producer(std::function<void()> producer) override;
  void wake() override;
  void set_on_disconnect(std::function<void()> callback) override;
  void start_stream(const HttpHeaders& headers) override;
  std::string& stream_out() override;
  void end_stream(bool close_connection) override;

  // From the connection, on the strand.
  void call_producer();
  void client_gone();
  void answered();

 private:
  void run_producer();
  bool current() const { return connection_->exchange_.get() == this; }

  const std::shared_ptr<Connection> connection_;
  const HttpRequest request_;
  std::string body_;
  std::atomic<bool> gone_ = false;  // written on the strand
  std::atomic<bool> wake_posted_ = false;
  // Strand only.
  std::function<void()> producer_;
  std::function<void()> on_disconnect_;
  std::string discarded_;
  bool answered_ = false;
};

}  // namespace baton
