#include "server/routes.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "server/cors.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/openai/tokens.h"
#include "server/status_pages.h"

namespace baton {
namespace {

struct Route {
  std::string_view method;
  std::string_view path;
  void (*handle)(Service&, const std::shared_ptr<Exchange>&);
  bool needs_key = false;  // when the server has an API key
};

constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions", &handle_chat, true},
    Route{"POST", "/v1/completions", &handle_completions, true},
    Route{"POST", "/tokenize", &handle_tokenize, true},
    Route{"POST", "/detokenize", &handle_detokenize, true},
    Route{"GET", "/v1/models", &handle_models, true},
    Route{"GET", "/health", &handle_health},
    Route{"GET", "/ready", &handle_ready},
    Route{"GET", "/version", &handle_version},
    Route{"GET", "/load", &handle_load},
    Route{"GET", "/server_info", &handle_server_info, true},
    Route{"GET", "/metrics", &handle_metrics},
};

constexpr std::string_view kModelPrefix = "/v1/models/";

bool is_known(std::string_view path) {
  return path.starts_with(kModelPrefix) ||
         std::any_of(kRoutes.begin(), kRoutes.end(), [&](const Route& route) {
           return route.path == path;
         });
}

HttpResponse path_error(int status, const std::string& message, const Json& code = nullptr) {
  const char* type = status == 404 ? "not_found_error" : "invalid_request_error";
  return {.status = status,
          .body = "{\"error\":" +
                  dump_json(
                      {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}) +
                  "}"};
}

// Compared in constant time: the time says nothing about the key.
bool has_key(const HttpRequest& request, const std::string& key) {
  static constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = request.header("authorization");
  if (given.size() < kBearer.size() ||
      strncasecmp(given.data(), kBearer.data(), kBearer.size()) != 0) {
    return false;
  }
  given.remove_prefix(kBearer.size());
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned char>(key[i]) ^
                  static_cast<unsigned char>(i < given.size() ? given[i] : 0);
  }
  return difference == 0;
}

HttpResponse not_found_here(const std::string& path) {
  std::string paths;
  for (const Route& route : kRoutes) {
    if (!paths.empty()) paths += ", ";
    paths += std::string(route.method) + " " + std::string(route.path);
  }
  return path_error(404, "no such path: " + path.substr(0, 100) + "; there are: " + paths);
}

HttpResponse method_not_allowed(const std::string& path,
                                const std::string& right,
                                const std::string& method) {
  HttpResponse response = path_error(405, path + " takes " + right + ", got " + method);
  response.headers.emplace_back("allow", right);
  return response;
}

HttpResponse key_missing() {
  HttpResponse response = path_error(
      401, "expected the API key in an Authorization header: Bearer KEY", "invalid_api_key");
  response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

// The path that clients mean: without trailing slashes, and with /v1 exactly once where the
// endpoint lives under it.
std::string canonical_path(std::string_view given) {
  while (given.size() > 1 && given.back() == '/') given.remove_suffix(1);
  while (given.starts_with("/v1/v1/")) given.remove_prefix(3);
  std::string path(given);
  if (is_known(path)) return path;
  if (is_known("/v1" + path)) return "/v1" + path;
  if (path.starts_with("/v1/") && is_known(path.substr(3))) return path.substr(3);
  return path;
}

// The route of a request, or the answer that it gets without one.
struct Decision {
  std::optional<Route> route = std::nullopt;
  HttpResponse refusal = {};
};

Decision decide(const Service& service, const HttpRequest& request) {
  if (auto preflight = answer_preflight(service.options().allowed_origins, request)) {
    return {.refusal = std::move(*preflight)};  // before the key: a browser sends none yet
  }
  const std::string path = canonical_path(request.path);
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  std::optional<Route> route;
  for (const Route& known : kRoutes) {
    if (known.path == path && (!route || known.method == method)) route = known;
  }
  if (!route && path.starts_with(kModelPrefix)) {
    route = Route{"GET", kModelPrefix, &handle_model, true};
  }
  if (!route) return {.refusal = not_found_here(request.path)};
  if (route->method != method) {
    return {.refusal = method_not_allowed(path, std::string(route->method), request.method)};
  }
  const std::string& key = service.options().api_key;
  if (route->needs_key && !key.empty() && !has_key(request, key)) {
    return {.refusal = key_missing()};
  }
  return {.route = route};
}

void note_request(Service& service, const HttpRequest& request) {
  ++service.metrics().http_requests;
  if (log_enabled(LogLevel::kDebug)) log_debug(request.method + " " + request.path);
}

// What the head alone makes useless: no such path or method, or no key.
std::optional<HttpResponse> refuse_early(Service& service, const HttpRequest& head) {
  Decision decision = decide(service, head);
  if (decision.route) return std::nullopt;
  note_request(service, head);
  return std::move(decision.refusal);
}

void handle_request(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  note_request(service, request);
  Decision decision = decide(service, request);
  if (decision.route) {
    decision.route->handle(service, exchange);
  } else {
    exchange->respond(std::move(decision.refusal));
  }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> open_api_server(Service& service,
                                                    const HttpAddress& address,
                                                    const HttpLimits& limits,
                                                    int http_threads) {
  return HttpServer::open(
      address,
      limits,
      http_threads,
      [&service](const std::shared_ptr<Exchange>& exchange) { handle_request(service, exchange); },
      [&service](const HttpRequest& head) { return refuse_early(service, head); },
      [&service](const HttpRequest& head) {
        return cors_headers(service.options().allowed_origins, head);
      });
}

}  // namespace baton
