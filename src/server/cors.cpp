#include "server/cors.h"

#include <algorithm>

#include "base/json.h"
#include "server/http_status.h"

namespace baton {
namespace {

constexpr std::string_view kAll = "*";

bool is_origin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return text == kAll;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/ ?#*\"") == std::string_view::npos;
}

bool allows(const std::vector<std::string>& allowed, std::string_view origin) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return one == kAll || one == origin;
  });
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const size_t begin = std::min(text.find_first_not_of(' ', at), end);
    parts.push_back(text.substr(begin, end - begin));
    at = end + 1;
  }
  return parts;
}

Result<std::vector<std::string>> list_of(const std::string& text) {
  if (!text.starts_with('[')) return split_at_commas(text);
  Result<Json> list = parse_json(text, "allowed origins");
  if (!list) return list.error();
  std::vector<std::string> origins;
  for (const Json& origin : *list) {
    origins.push_back(origin.is_string() ? origin.get<std::string>() : origin.dump());
  }
  return origins;
}

}  // namespace

Result<std::vector<std::string>> parse_origins(const std::string& text) {
  Result<std::vector<std::string>> origins = list_of(text);
  if (!origins) return origins.error();
  for (const std::string& origin : *origins) {
    if (is_origin(origin)) continue;
    return invalid_argument("expected * or origins like https://host:port, got '" +
                            origin.substr(0, 100) + "'");
  }
  return origins;
}

HttpHeaders cors_headers(const std::vector<std::string>& allowed, const HttpRequest& request) {
  HttpHeaders headers;
  const std::string_view origin = request.header("origin");
  const bool all = allows(allowed, kAll);
  // What depends on the origin must not be taken from a cache for another one.
  if (!allowed.empty() && !all) headers.emplace_back("vary", "Origin");
  if (origin.empty() || !allows(allowed, origin)) return headers;
  headers.emplace_back("access-control-allow-origin", all ? kAll : origin);
  headers.emplace_back("access-control-expose-headers", kAll);
  return headers;
}

std::optional<HttpResponse> answer_preflight(const std::vector<std::string>& allowed,
                                             const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (request.method != "OPTIONS" || origin.empty() ||
      request.header("access-control-request-method").empty()) {
    return std::nullopt;
  }
  if (!allows(allowed, origin)) {
    HttpResponse refusal = error_response({invalid_argument(
        "origin '" + std::string(origin.substr(0, 100)) + "' is not among --allowed-origins")});
    refusal.status = 403;
    return refusal;
  }
  HttpResponse response;
  response.content_type = "text/plain";
  response.headers = {{"access-control-allow-methods", "GET, HEAD, POST"},
                      {"access-control-max-age", "600"}};
  // Repeated, since a wildcard would leave out Authorization.
  if (const std::string_view wanted = request.header("access-control-request-headers");
      !wanted.empty()) {
    response.headers.emplace_back("access-control-allow-headers", wanted);
  }
  return response;
}

}  // namespace baton
