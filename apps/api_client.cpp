#include "api_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "server/http/server.h"

namespace baton {
namespace {

Error unavailable(const std::string& message) {
  return {ErrorCode::kUnavailable, message};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

// {"error": {"message": ...}}, or the text itself.
std::string message_of(const std::string& body) {
  const Result<Json> parsed = parse_json(body, "answer");
  if (!parsed) return body.substr(0, 200);
  for (const char* place : {"/error/message", "/error"}) {
    if (std::string said = string_at(*parsed, place); !said.empty()) return said;
  }
  return body.substr(0, 200);
}

Error error_of(int status, const std::string& body) {
  const std::string message = message_of(body);
  const ErrorCode code = status == 503   ? ErrorCode::kUnavailable
                         : status == 429 ? ErrorCode::kResourceExhausted
                         : status == 404 ? ErrorCode::kNotFound
                         : status >= 500 ? ErrorCode::kInternal
                                         : ErrorCode::kInvalidArgument;
  return {code, "HTTP " + std::to_string(status) + ": " + message};
}

}  // namespace

Result<ServerAddress> parse_url(const std::string& url) {
  const Error wrong = invalid_argument("expected http://host:port, got '" + url + "'");
  static constexpr std::string_view kScheme = "http://";
  std::string rest = url.starts_with(kScheme) ? url.substr(kScheme.size()) : url;
  if (rest.find("://") != std::string::npos) return wrong;
  rest = rest.substr(0, rest.find('/'));
  ServerAddress address;
  // An IPv6 address stands in brackets, since it has colons of its own.
  const size_t begin = rest.starts_with('[') ? 1 : 0;
  const size_t end = rest.find(begin == 1 ? ']' : ':');
  address.host = rest.substr(begin, end - begin);
  if (address.host.empty() || (begin == 1 && end == std::string::npos)) return wrong;
  const std::string port = end == std::string::npos ? "" : rest.substr(end + begin);
  if (port.empty()) return address;
  const char* last = port.data() + port.size();
  const auto [stop, error] = std::from_chars(port.data() + 1, last, address.port);
  if (port[0] != ':' || error != std::errc() || stop != last || address.port == 0) return wrong;
  return address;
}

std::string string_at(const Json& answer, const char* place) {
  const Json::json_pointer pointer(place);
  if (!answer.contains(pointer)) return {};
  const Json& value = answer.at(pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

ApiClient::ApiClient(ServerAddress address, std::string api_key)
    : address_(std::move(address)), api_key_(std::move(api_key)) {}

ApiClient::~ApiClient() {
  close();
}

void ApiClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  buffer_.clear();
}

Status ApiClient::connect() {
  if (socket_ >= 0) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string name = HttpAddress{address_.host, address_.port, {}}.name();
  if (const int code =
          getaddrinfo(address_.host.c_str(), std::to_string(address_.port).c_str(), &hints, &found);
      code != 0) {
    return unavailable("cannot find " + name + ": " + gai_strerror(code));
  }
  int error = 0;
  for (const addrinfo* one = found; one != nullptr && socket_ < 0; one = one->ai_next) {
    socket_ = ::socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (socket_ < 0) continue;
    if (::connect(socket_, one->ai_addr, one->ai_addrlen) == 0) break;
    error = errno;
    close();
  }
  freeaddrinfo(found);
  if (socket_ < 0) return unavailable("cannot connect to " + name + ": " + std::strerror(error));
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {};
}

Status ApiClient::send_request(const std::string& method,
                               const std::string& path,
                               const std::string& body) {
  if (Status connected = connect(); !connected) return connected;
  std::string text =
      method + " " + path +
      " HTTP/1.1\r\nHost: " + HttpAddress{address_.host, address_.port, {}}.name() +
      "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n";
  if (!api_key_.empty()) text += "Authorization: Bearer " + api_key_ + "\r\n";
  text += "\r\n" + body;
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t bytes = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (bytes <= 0) {
      stale_ = true;
      close();
      return unavailable("the connection to the server broke");
    }
    sent += static_cast<size_t>(bytes);
  }
  return {};
}

Status ApiClient::read_more() {
  char piece[65536];
  const ssize_t bytes = ::recv(socket_, piece, sizeof piece, 0);
  if (bytes <= 0) {
    stale_ = buffer_.empty() && (bytes == 0 || errno == ECONNRESET);
    close();
    return unavailable("the server closed the connection");
  }
  buffer_.append(piece, static_cast<size_t>(bytes));
  return {};
}

Status ApiClient::read_at_least(size_t bytes) {
  while (buffer_.size() < bytes) {
    if (Status read = read_more(); !read) return read;
  }
  return {};
}

Result<ApiClient::Head> ApiClient::read_head() {
  while (buffer_.find("\r\n\r\n") == std::string::npos) {
    if (Status read = read_more(); !read) return read.error();
  }
  const size_t end = buffer_.find("\r\n\r\n");
  const std::string text = lower(buffer_.substr(0, end + 2));
  buffer_.erase(0, end + 4);
  Head head;
  head.status = std::atoi(text.c_str() + text.find(' ') + 1);
  head.chunked = text.find("transfer-encoding: chunked") != std::string::npos;
  static constexpr std::string_view kLength = "content-length: ";
  if (const size_t at = text.find(kLength); at != std::string::npos) {
    head.length = std::strtoul(text.c_str() + at + kLength.size(), nullptr, 10);
  }
  return head;
}

Result<bool> ApiClient::read_chunk(std::string& out) {
  while (buffer_.find("\r\n") == std::string::npos) {
    if (Status read = read_more(); !read) return read.error();
  }
  const size_t line = buffer_.find("\r\n");
  const size_t bytes = std::strtoul(buffer_.c_str(), nullptr, 16);
  if (Status read = read_at_least(line + 2 + bytes + 2); !read) return read.error();
  out.append(buffer_, line + 2, bytes);
  buffer_.erase(0, line + 2 + bytes + 2);
  return bytes > 0;
}

Result<std::string> ApiClient::read_body(const Head& head) {
  std::string body;
  if (!head.chunked) {
    if (Status read = read_at_least(head.length); !read) return read.error();
    body = buffer_.substr(0, head.length);
    buffer_.erase(0, head.length);
    return body;
  }
  while (true) {
    Result<bool> more = read_chunk(body);
    if (!more) return more.error();
    if (!*more) return body;
  }
}

Result<Json> ApiClient::answer_of(const Head& head) {
  Result<std::string> body = read_body(head);
  if (!body) return body.error();
  if (head.status != 200) return error_of(head.status, *body);
  return parse_json(*body, "answer");
}

// A connection kept from the request before may have been closed meanwhile: then a new one.
Result<ApiClient::Head> ApiClient::exchange(const std::string& method,
                                            const std::string& path,
                                            const std::string& body) {
  const bool kept = socket_ >= 0;
  stale_ = false;
  Status sent = send_request(method, path, body);
  Result<Head> head = sent ? read_head() : Result<Head>(sent.error());
  if (!kept || !stale_) return head;
  if (sent = send_request(method, path, body); !sent) return sent.error();
  return read_head();
}

Result<Json> ApiClient::get(const std::string& path) {
  Result<Head> head = exchange("GET", path, "");
  if (!head) return head.error();
  return answer_of(*head);
}

Status ApiClient::stream(const std::string& path,
                         const Json& body,
                         const std::function<bool(const Json&)>& on_event) {
  Result<Head> head = exchange("POST", path, dump_json(body));
  if (!head) return head.error();
  if (head->status != 200 || !head->chunked) {
    Result<Json> answer = answer_of(*head);
    return answer ? Status(internal_error("expected a stream of events")) : answer.error();
  }
  std::string text;
  Status outcome;
  while (true) {
    Result<bool> more = read_chunk(text);
    if (!more) return more.error();
    if (!*more) return outcome;
    for (size_t end; (end = text.find("\n\n")) != std::string::npos;) {
      const std::string event = text.substr(0, end);
      text.erase(0, end + 2);
      static constexpr std::string_view kData = "data: ";
      if (!event.starts_with(kData) || event == "data: [DONE]") continue;
      Result<Json> parsed = parse_json(std::string_view(event).substr(kData.size()), "event");
      if (!parsed) return parsed.error();
      if (parsed->contains("error")) {
        outcome = internal_error(message_of(event.substr(kData.size())));
      } else if (!on_event(*parsed)) {
        close();
        return outcome;
      }
    }
  }
}

}  // namespace baton
