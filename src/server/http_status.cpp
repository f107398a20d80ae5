#include "server/http_status.h"

#include "base/json.h"

namespace baton {
namespace {

constexpr size_t kMaxMessage = 1000;

const char* error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return "invalid_request_error";
    case ErrorCode::kNotFound:
      return "not_found_error";
    case ErrorCode::kResourceExhausted:
      return "rate_limit_error";
    case ErrorCode::kUnavailable:
      return "service_unavailable_error";
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      return "internal_error";
  }
  return "internal_error";
}

// Empty: the message and the field say it.
const char* default_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kResourceExhausted:
      return "rate_limit_exceeded";
    case ErrorCode::kUnavailable:
      return "service_unavailable";
    case ErrorCode::kInternal:
      return "internal_error";
    default:
      return "";
  }
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCancelled:
      return 499;  // for accounts only: nobody is there to read it
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

std::string error_object(const ApiError& error) {
  Json object = {
      {"message", error.error.message.substr(0, kMaxMessage)},
      {"type", error_type(error.error.code)},
      {"param", text_or_null(error.param)},
      {"code", text_or_null(error.code.empty() ? default_code(error.error.code) : error.code)}};
  return dump_json(object);
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = http_status(error.error.code),
                        .body = "{\"error\":" + error_object(error) + "}"};
  if (error.error.code == ErrorCode::kResourceExhausted) {
    response.headers.emplace_back("retry-after", "1");
  } else if (error.error.code == ErrorCode::kUnavailable) {
    response.headers.emplace_back("retry-after", "5");
  }
  return response;
}

}  // namespace baton
