// For tests: a blocking HTTP client on a loopback socket. It speaks only what is written here, so
// that a test can also send what no client library would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"

namespace baton {

struct TestResponse {
  int status = 0;                              // 0: the connection ended before a whole answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool closed = false;  // the server closed the connection afterwards

  Json json() const {
    const Result<Json> parsed = parse_json(body, "answer");
    return parsed ? *parsed : Json();
  }
  // The data of the events of a stream, without [DONE].
  std::vector<Json> events() const {
    std::vector<Json> found;
    for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      at += 6;
      const size_t end = body.find("\n\n", at);
      const std::string data = body.substr(at, end - at);
      if (data == "[DONE]") continue;
      const Result<Json> parsed = parse_json(data, "event");
      found.push_back(parsed ? *parsed : Json("not JSON: " + data));
    }
    return found;
  }
};

class TestClient {
 public:
  explicit TestClient(uint16_t port, double timeout_seconds = 20.0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    timeval timeout{static_cast<time_t>(timeout_seconds), 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  std::chrono::microseconds pause_between_reads{0};

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Ends with a reset instead of a FIN.
  void reset() {
    const linger hard{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  bool send_request(const std::string& method,
                    const std::string& path,
                    const std::string& body,
                    const std::string& headers = {}) {
    return send(method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  TestResponse request(const std::string& method,
                       const std::string& path,
                       const std::string& body = {},
                       const std::string& headers = {}) {
    send_request(method, path, body, headers);
    return read_response();
  }
  TestResponse get(const std::string& path) { return request("GET", path); }
  TestResponse post(const std::string& path, const Json& body) {
    return request("POST", path, body.dump());
  }

  TestResponse read_response() {
    TestResponse response;
    if (!read_until("\r\n\r\n")) return response;
    const size_t head_end = buffer_.find("\r\n\r\n") + 4;
    read_head(buffer_.substr(0, head_end), response);
    buffer_.erase(0, head_end);
    if (response.headers["transfer-encoding"] == "chunked") {
      if (!read_chunks(response.body)) response.status = 0;
    } else {
      const auto length = response.headers.find("content-length");
      const size_t bytes = length == response.headers.end() ? 0 : std::stoul(length->second);
      while (buffer_.size() < bytes) {
        if (!read_more()) break;
      }
      response.body = buffer_.substr(0, bytes);
      if (response.body.size() < bytes) response.status = 0;
      buffer_.erase(0, bytes);
    }
    if (response.headers["connection"] == "close") response.closed = at_end();
    return response;
  }

  // Waits for the text in what comes in, raw; false when the connection ends first.
  bool read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!read_more()) return false;
    }
    return true;
  }
  const std::string& received() const { return buffer_; }
  bool at_end() {
    while (read_more()) {
    }
    return ended_;
  }

 private:
  static void read_head(const std::string& head, TestResponse& response) {
    response.status = std::atoi(head.substr(head.find(' ') + 1).c_str());
    size_t at = head.find("\r\n") + 2;
    while (at + 2 < head.size()) {
      const size_t end = head.find("\r\n", at);
      const std::string line = head.substr(at, end - at);
      const size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
      if (colon != std::string::npos) response.headers[name] = line.substr(colon + 2);
      at = end + 2;
    }
  }

  bool read_chunks(std::string& body) {
    while (true) {
      while (buffer_.find("\r\n") == std::string::npos) {
        if (!read_more()) return false;
      }
      const size_t line = buffer_.find("\r\n");
      const size_t bytes = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + bytes + 2) {
        if (!read_more()) return false;
      }
      body += buffer_.substr(line + 2, bytes);
      buffer_.erase(0, line + 2 + bytes + 2);
      if (bytes == 0) return true;
    }
  }

  bool read_more() {
    char piece[16384];
    if (pause_between_reads.count() > 0) std::this_thread::sleep_for(pause_between_reads);
    const ssize_t bytes = ::recv(socket_, piece, sizeof piece, 0);
    if (bytes == 0) ended_ = true;
    if (bytes <= 0) return false;
    buffer_.append(piece, static_cast<size_t>(bytes));
    return true;
  }

  int socket_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

}  // namespace baton
