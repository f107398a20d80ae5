// Expected failures as values: Result<T> holds a T or an Error; Status is Result<void>.
// Member names follow std::expected, so that the move to C++23 is a typedef.
//
// Use it for what a user, a file or a peer can cause (bad request, bad file, no room).
// A broken invariant is a BATON_CHECK (base/check.h), never an Error.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace baton {

// A small closed set. HTTP statuses are derived from it in one place (server/http_status).
enum class ErrorCode {
  kInvalidArgument,    // the caller's input can never work: bad request, bad flag, bad file
  kNotFound,           // a named thing does not exist: file, tensor, model, route
  kResourceExhausted,  // no room now: queue full, out of memory; may work later
  kUnavailable,        // not ready, draining, peer lost; may work later or elsewhere
  kCancelled,          // the caller went away
  kUnsupported,        // well formed, but Baton cannot do it
  kInternal,           // our fault
};

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // lower case, no full stop: what, where, expected, got
};

inline Error invalid_argument(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}
inline Error not_found(std::string message) {
  return {ErrorCode::kNotFound, std::move(message)};
}
inline Error unsupported(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message)};
}
inline Error resource_exhausted(std::string message) {
  return {ErrorCode::kResourceExhausted, std::move(message)};
}
inline Error internal_error(std::string message) {
  return {ErrorCode::kInternal, std::move(message)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit

  bool has_value() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace baton
