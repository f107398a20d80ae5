#include "server/http/wire.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>

#include "base/hash.h"

namespace baton {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return out;
}

// An id of the client goes into log lines and headers: letters, digits and a few signs only.
bool sane_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

// http://host/path, as a client writes it to a proxy, is /path here.
std::string_view without_authority(std::string_view target) {
  static constexpr std::string_view kScheme = "http://";
  if (!target.starts_with(kScheme)) return target;
  const size_t path = target.find('/', kScheme.size());
  return path == std::string_view::npos ? "/" : target.substr(path);
}

std::string new_request_id() {
  static const uint64_t process = random_seed();
  static std::atomic<uint64_t> counter = 0;
  const uint64_t number = ++counter;
  char text[40];
  std::snprintf(text,
                sizeof text,
                "%016llx%08llx",
                static_cast<unsigned long long>(hash_mix(process ^ number, 0x9e3779b97f4a7c15ULL)),
                static_cast<unsigned long long>(number));
  return text;
}

void append_header(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  // A value never brings line ends of its own.
  for (const char c : value) head += c == '\r' || c == '\n' ? ' ' : c;
  head += "\r\n";
}

std::string head_start(int status,
                       std::string_view content_type,
                       std::string_view request_id,
                       bool keep_alive,
                       bool http_1_0) {
  std::string head = http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  head += std::to_string(status);
  head += ' ';
  head += reason_phrase(status);
  head += "\r\n";
  append_header(head, "content-type", content_type);
  if (!request_id.empty()) append_header(head, "x-request-id", request_id);
  if (!keep_alive) {
    append_header(head, "connection", "close");
  } else if (http_1_0) {
    append_header(head, "connection", "keep-alive");
  }
  return head;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

HttpRequest request_of(
    const boost::beast::http::header<true, boost::beast::http::fields>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  std::string_view target = without_authority({message.target().data(), message.target().size()});
  if (const size_t query = target.find('?'); query != std::string_view::npos) {
    request.query = std::string(target.substr(query + 1));
    target = target.substr(0, query);
  }
  request.path = percent_decode(target);
  for (const auto& field : message) {
    request.headers.emplace_back(lower({field.name_string().data(), field.name_string().size()}),
                                 std::string(field.value().data(), field.value().size()));
  }
  const std::string_view id = request.header("x-request-id");
  request.id = sane_id(id) ? std::string(id) : new_request_id();
  return request;
}

std::string response_head(const HttpResponse& response,
                          std::string_view request_id,
                          bool keep_alive,
                          bool http_1_0) {
  std::string head =
      head_start(response.status, response.content_type, request_id, keep_alive, http_1_0);
  for (const auto& [name, value] : response.headers) append_header(head, name, value);
  append_header(head, "content-length", std::to_string(response.body.size()));
  head += "\r\n";
  return head;
}

std::string stream_head(const HttpHeaders& headers,
                        std::string_view request_id,
                        bool keep_alive,
                        bool http_1_0) {
  std::string head =
      head_start(200, "text/event-stream; charset=utf-8", request_id, keep_alive, http_1_0);
  append_header(head, "cache-control", "no-cache");
  append_header(head, "x-accel-buffering", "no");  // proxies must not collect the events
  for (const auto& [name, value] : headers) append_header(head, name, value);
  if (!http_1_0) append_header(head, "transfer-encoding", "chunked");
  head += "\r\n";
  return head;
}

void append_chunk_size(std::string& out, size_t bytes) {
  char text[24];
  out.append(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%zx\r\n", bytes)));
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

}  // namespace baton
