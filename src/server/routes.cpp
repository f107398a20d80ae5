#include "server/routes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/openai/tokens.h"
#include "server/status_pages.h"

namespace baton {
namespace {

struct Route {
  std::string_view method;
  std::string_view path;
  void (*handle)(Service&, std::shared_ptr<Exchange>);
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

HttpResponse path_error(int status, const std::string& message) {
  const char* type = status == 404 ? "not_found_error" : "invalid_request_error";
  return {
      .status = status,
      .body =
          "{\"error\":" +
          dump_json({{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}}) +
          "}"};
}

// Compared in constant time: the time says nothing about the key.
bool has_key(const HttpRequest& request, const std::string& key) {
  static constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = request.header("authorization");
  if (!given.starts_with(kBearer)) return false;
  given.remove_prefix(kBearer.size());
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned char>(key[i]) ^
                  static_cast<unsigned char>(i < given.size() ? given[i] : 0);
  }
  return difference == 0;
}

void not_found_here(Exchange& exchange, const std::string& path) {
  std::string paths;
  for (const Route& route : kRoutes) {
    if (!paths.empty()) paths += ", ";
    paths += std::string(route.method) + " " + std::string(route.path);
  }
  exchange.respond(
      path_error(404, "no such path: " + path.substr(0, 100) + "; there are: " + paths));
}

}  // namespace

std::string canonical_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  while (path.starts_with("/v1/v1/")) path.erase(0, 3);
  if (is_known(path)) return path;
  if (is_known("/v1" + path)) return "/v1" + path;
  if (path.starts_with("/v1/") && is_known(path.substr(3))) return path.substr(3);
  return path;
}

void handle_request(Service& service, std::shared_ptr<Exchange> exchange) {
  ++service.metrics().http_requests;
  const HttpRequest& request = exchange->request();
  if (log_enabled(LogLevel::kDebug)) log_debug(request.method + " " + request.path);
  const std::string path = canonical_path(request.path);
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  const auto answer = [&](const Route& route) {
    const std::string& key = service.options().api_key;
    if (route.needs_key && !key.empty() && !has_key(request, key)) {
      exchange->respond(path_error(401, "expected the API key in an Authorization header"));
      return;
    }
    route.handle(service, exchange);
  };
  const Route* other_method = nullptr;
  for (const Route& route : kRoutes) {
    if (route.path != path) continue;
    if (route.method == method) {
      answer(route);
      return;
    }
    other_method = &route;
  }
  if (other_method != nullptr) {
    const std::string right(other_method->method);
    HttpResponse response = path_error(405, path + " takes " + right + ", got " + request.method);
    response.headers.emplace_back("allow", right);
    exchange->respond(std::move(response));
  } else if (path.starts_with(kModelPrefix) && method == "GET") {
    answer({"GET", kModelPrefix, &handle_model, true});
  } else {
    not_found_here(*exchange, request.path);
  }
}

}  // namespace baton
