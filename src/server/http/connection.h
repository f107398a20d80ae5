// One client connection: reads a request, hands it to the handler, writes the answer, and again.
// All members are touched on the strand only, except where Exchange says otherwise. It lives as
// long as an I/O operation or an Exchange refers to it.
#pragma once

#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/server.h"

namespace baton {

class ConnectionExchange;

// What the connections of one server share.
struct ServerShared {
  HttpLimits limits;
  HttpHandler handler;
  std::atomic<int> connections = 0;
  std::atomic<int> answering = 0;  // requests taken and not yet answered in full
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol>;

  Connection(Socket socket, std::shared_ptr<ServerShared> shared);
  ~Connection();

  void start();   // any thread
  void shut();    // any thread: closes at once
  void refuse();  // any thread: answers 503 and closes, for a full server

 private:
  friend class ConnectionExchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read_request();
  void read_header();
  void on_header(const boost::system::error_code& error);
  void send_continue();
  void read_body();
  void on_read_error(const boost::system::error_code& error);
  void dispatch();
  void watch_client();
  void client_gone();

  // From the exchange, on the strand.
  void write_response(HttpResponse response);
  void begin_stream(const HttpHeaders& headers);
  void run_producer();
  void end_of_stream(bool close_connection);

  void write(std::string head);  // head, then out_ (as a chunk while streaming)
  void on_written(const boost::system::error_code& error);
  void answer_done();
  void count_answer(bool answering);
  void linger();
  void discard_input();
  void close();
  void arm_timer(double seconds, void (Connection::*expired)());
  void on_ping_due();
  void on_request_timeout();
  void refuse_request(int status, const std::string& message);

  Socket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ServerShared> shared_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::chrono::steady_clock::time_point body_deadline_;
  std::chrono::steady_clock::time_point last_sent_;
  uint64_t timer_round_ = 0;  // a cancelled wait may already be queued: rounds tell them apart

  std::shared_ptr<ConnectionExchange> exchange_;  // the request being answered
  std::string head_, writing_, out_;
  std::string chunk_head_;
  bool closed_ = false;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool streaming_ = false;
  bool ended_ = false;  // the answer is complete once what is written is out
  bool writing_now_ = false;
  bool watching_ = false;
  bool lingering_ = false;
  bool answering_ = false;  // counted in shared_->answering
  bool producer_due_ = false;
};

}  // namespace baton
