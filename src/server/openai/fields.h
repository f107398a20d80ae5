// Reads the fields of a request body by name, with type and range, and remembers which names
// were asked for: what is left over is unknown to Baton, and the client gets to hear of it. The
// first failure is kept. Null counts as absent, under a known name or another.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/http_status.h"

namespace baton {

class Fields {
 public:
  // `object` must be an object and outlive this. `prefix` names it in errors ("stream_options").
  explicit Fields(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  // The value whatever it is; null pointer when absent or null.
  const Json* any(std::string_view name);
  // Whether the field is there and null.
  bool is_null(std::string_view name) const;
  // Fields that are fine to send and change nothing here.
  void accept(std::initializer_list<std::string_view> names);

  void fail(std::string_view name, const std::string& message);
  void fail(ApiError error);
  // Failures of a nested reader count here too.
  void adopt(const Fields& nested);
  const std::optional<ApiError>& error() const { return error_; }
  std::vector<std::string> unknown() const;

 private:
  std::string full_name(std::string_view name) const;

  const Json& object_;
  const std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> nested_unknown_;
  std::optional<ApiError> error_;
};

// "a number", "a list": what a client sent, in words.
std::string_view json_kind(const Json& value);

}  // namespace baton
