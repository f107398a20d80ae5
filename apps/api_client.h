// A small blocking HTTP client for our own verbs: one connection, JSON in, JSON or server-sent
// events out. Not for hostile servers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace baton {

// http://host:port or host:port, with or without /v1 behind it.
struct ServerAddress {
  std::string host;
  uint16_t port = 80;
};
Result<ServerAddress> parse_url(const std::string& url);

// The string at a place of an answer, "/choices/0/delta/content"; empty where there is none:
// servers leave out or null what they have nothing for.
std::string string_at(const Json& answer, const char* place);

class ApiClient {
 public:
  ApiClient(ServerAddress address, std::string api_key);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // The error carries what the server said.
  Result<Json> get(const std::string& path);
  // Calls `on_event` for each event but [DONE]; it may return false to stop.
  Status stream(const std::string& path,
                const Json& body,
                const std::function<bool(const Json&)>& on_event);

 private:
  struct Head {
    int status = 0;
    bool chunked = false;
    size_t length = 0;
  };

  Status connect();
  void close();
  // Sends, and reads the head of the answer.
  Result<Head> exchange(const std::string& method,
                        const std::string& path,
                        const std::string& body);
  Status send_request(const std::string& method, const std::string& path, const std::string& body);
  Result<Head> read_head();
  Status read_more();
  Status read_at_least(size_t bytes);
  // Appends the next chunk to `out`; an empty one is the end.
  Result<bool> read_chunk(std::string& out);
  Result<std::string> read_body(const Head& head);
  Result<Json> answer_of(const Head& head);

  const ServerAddress address_;
  const std::string api_key_;
  int socket_ = -1;
  std::string buffer_;
  bool stale_ = false;  // the connection ended before anything of an answer came
};

}  // namespace baton
