// One HTTP request and the way to answer it: at once with respond(), or as a stream that a
// producer writes piece by piece. Owned by whoever is working on the answer; it keeps its
// connection alive. Functions say which thread may call them; "strand" means the connection's
// own strand of HTTP threads, on which handler, producer and disconnect callback run.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// All but the body, which Exchange hands over.
struct HttpRequest {
  std::string id;      // the client's x-request-id when it is sane, else made here
  std::string method;  // "POST"
  std::string path;    // decoded, without query
  std::string query;
  HttpHeaders headers;                            // names in lower case
  std::chrono::steady_clock::time_point arrival;  // when it was complete

  // Empty when absent. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  bool close = false;  // close the connection afterwards
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Any thread. Valid as long as the exchange.
  virtual const HttpRequest& request() const = 0;
  // One thread, once: bodies are large, and an answer may take long.
  virtual std::string take_body() = 0;
  // Any thread: whether the client is known to have left before its answer was complete.
  virtual bool abandoned() const = 0;
  // Any thread, once, and not after start_stream().
  virtual void respond(HttpResponse response) = 0;

  // Any thread: `producer` will run on the strand once it is set and after each wake() (several
  // wakes may become one run), and not while the client is slow to take what it wrote before. It
  // keeps running after the client has gone, until it is reset, so that it can finish its accounts.
  virtual void set_producer(std::function<void()> producer) = 0;
  virtual void wake() = 0;
  // Any thread: called once, on the strand, as soon as the client is gone before its answer
  // is complete; at once when it already is.
  virtual void set_on_disconnect(std::function<void()> callback) = 0;

  // Strand only. Headers go out at once; what is appended to stream_out() during a run of the
  // producer is written as one piece. While nothing is sent a comment keeps the stream alive.
  virtual void start_stream(const HttpHeaders& headers) = 0;
  virtual std::string& stream_out() = 0;
  virtual void end_stream(bool close_connection) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;
// Asked with the head of a request before its body is read: the answer that makes the body useless,
// if there is one. The connection closes behind it.
using HttpRefusal = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;
// Asked with the head of a request: headers that its answer carries, whoever gives it.
using HttpCommonHeaders = std::function<HttpHeaders(const HttpRequest& head)>;

}  // namespace baton
