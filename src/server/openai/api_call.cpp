#include "server/openai/api_call.h"

#include <exception>

#include "base/log.h"
#include "server/openai/json_body.h"

namespace baton {
namespace {

void finish(Service& service, RequestRecord record, int status, EndReason reason) {
  record.status = status;
  record.reason = reason;
  record.times.end_to_end =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - record.arrival).count();
  service.finished(record);
}

void refuse(Service& service, Exchange& exchange, RequestRecord record, const ApiError& error) {
  HttpResponse response = error_response(error);
  const int status = response.status;
  if (service.phase() == Phase::kDraining) response.close = true;
  exchange.respond(std::move(response));
  finish(service,
         std::move(record),
         status,
         error.error.code == ErrorCode::kInternal ? EndReason::kError : EndReason::kRejected);
}

void answer(Service& service,
            const std::shared_ptr<Exchange>& exchange,
            const ApiBody& body,
            const RequestRecord& record) {
  if (exchange->abandoned()) {  // it waited for this thread longer than its client did
    finish(service, record, http_status(ErrorCode::kCancelled), EndReason::kAbort);
    return;
  }
  std::optional<ApiError> error;
  try {
    Result<Json> parsed = parse_body(exchange->request(), exchange->take_body());
    error = parsed ? body(service, exchange, *parsed, record) : ApiError{parsed.error()};
  } catch (const std::exception& e) {
    log_error("request " + record.id + " failed: " + std::string(e.what()).substr(0, 60));
    error = ApiError{internal_error("internal error")};
  }
  if (error) refuse(service, *exchange, record, *error);
}

}  // namespace

Result<Json> parse_body(const HttpRequest& request, const std::string& body) {
  if (const std::string_view encoding = request.header("content-encoding");
      !encoding.empty() && encoding != "identity") {
    return unsupported("request body: content-encoding is not supported, send it as it is");
  }
  if (body.empty()) return invalid_argument("request body: expected JSON, got nothing");
  Result<Json> parsed = parse_json_body(body);
  if (!parsed) {
    Error error = parsed.error();
    // The parser quotes what it read last; clients and logs do without.
    for (const std::string_view quote : {"; last read", "; got", "ill-formed"}) {
      if (const size_t at = error.message.find(quote); at != std::string::npos) {
        error.message.resize(at);
      }
    }
    return error;
  }
  if (!parsed->is_object()) {
    return invalid_argument("request body: expected an object, got " +
                            std::string(json_kind(*parsed)));
  }
  return parsed;
}

std::optional<ApiError> read_model_name(Fields& fields, const Service& service) {
  const std::optional<std::string> name = fields.string("model");
  if (!name || name->empty()) return fields.error();
  if (Status known = service.check_model(*name); !known) {
    return ApiError{known.error(), "model", "model_not_found"};
  }
  return std::nullopt;
}

void run_api_call(Service& service,
                  std::shared_ptr<Exchange> exchange,
                  const std::string& endpoint,
                  ApiBody body) {
  RequestRecord record;
  record.id = exchange->request().id;
  record.endpoint = endpoint;
  record.arrival = exchange->request().arrival;
  if (Status admitted = service.admission(); !admitted) {
    refuse(service, *exchange, std::move(record), {admitted.error()});
    return;
  }
  service.workers().post([&service,
                          exchange = std::move(exchange),
                          body = std::move(body),
                          record = std::move(record)] { answer(service, exchange, body, record); });
}

}  // namespace baton
