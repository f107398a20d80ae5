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
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/server.h"

namespace baton {

class Connection;
class ConnectionExchange;

// What the connections of one server share.
struct ServerShared {
  HttpLimits limits;
  HttpHandler handler;
  HttpRefusal refuse_early;
  HttpCommonHeaders common_headers;
  std::mutex mutex;
  std::map<const Connection*, std::weak_ptr<Connection>> open;  // they take themselves out
  std::atomic<int> connections = 0;
  std::atomic<int> answering = 0;  // requests taken and not yet answered in full
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol>;

  Connection(Socket socket, std::shared_ptr<ServerShared> shared);
  ~Connection();

  // Any thread.
  void start();
  void shut();    // closes at once
  void refuse();  // answers 503 and closes, for a full server

 private:
  friend class ConnectionExchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // A refusal may overtake a read: what a read brings counts in kReading only.
  enum class State { kReading, kAnswering, kLingering, kClosed };

  // Reading, connection.cpp.
  void read_request();
  void read_header();
  void on_header(const boost::system::error_code& error);
  bool refuses_header();
  void send_continue();
  void read_body();
  void on_read_error(const boost::system::error_code& error);
  void on_request_timeout();
  void dispatch();
  void watch_client();
  void on_watched(const boost::system::error_code& error, size_t bytes);

  // Ending, connection.cpp.
  void refuse_request(int status, const std::string& message);
  void refuse_request(HttpResponse response);
  void client_gone();
  void linger();
  void discard_input();
  void close();
  std::shared_ptr<ConnectionExchange> release_exchange();
  void arm_timer(double seconds, void (Connection::*expired)());
  void stop_timer();

  // Answering, connection_answer.cpp. The first four are for the exchange, on the strand.
  void write_response(HttpResponse response);
  void begin_stream(const HttpHeaders& headers);
  void run_producer();
  void end_of_stream(bool close_connection);
  void write();  // head_, then out_ (as a chunk while streaming)
  void on_written(const boost::system::error_code& error);
  void on_ping_due();
  void answer_done();

  Socket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<ServerShared> shared_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;  // the head, until dispatch
  HttpHeaders common_headers_;
  std::chrono::steady_clock::time_point body_deadline_;
  uint64_t timer_round_ = 0;  // a cancelled wait may already be queued: rounds tell them apart

  std::shared_ptr<ConnectionExchange> exchange_;  // the request being answered
  std::string head_, writing_, out_;
  std::string chunk_head_;
  std::chrono::steady_clock::time_point last_progress_;  // of writing
  State state_ = State::kReading;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool streaming_ = false;
  bool ended_ = false;  // the answer is complete once what is written is out
  bool writing_now_ = false;
  bool watching_ = false;
  bool producer_due_ = false;
};

}  // namespace baton
