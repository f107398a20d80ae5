#include "server/openai/fields.h"

#include <cmath>

namespace baton {
namespace {

std::string short_number(double value) {
  std::string text = Json(value).dump();
  if (text.size() > 2 && text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number with a fraction or exponent";
    default:
      return "something else";
  }
}

std::string Fields::full_name(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
}

const Json* Fields::any(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::is_null(std::string_view name) const {
  const auto found = object_.find(name);
  return found != object_.end() && found->is_null();
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void Fields::fail(std::string_view name, const std::string& message) {
  const std::string full = full_name(name);
  fail(ApiError{invalid_argument(full + ": " + message), full});
}

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::adopt(const Fields& nested) {
  if (!error_ && nested.error_) error_ = nested.error_;
  for (std::string& name : nested.unknown()) nested_unknown_.push_back(std::move(name));
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    fail(name, "expected an integer, got " + std::string(json_kind(*value)));
    return std::nullopt;
  }
  const bool too_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : value->get<int64_t>();
  if (number < least || number > most || (too_large && most < INT64_MAX)) {
    const std::string got = value->dump().substr(0, 24);
    if (most == INT64_MAX) {
      fail(name, "expected at least " + std::to_string(least) + ", got " + got);
    } else {
      fail(name,
           "expected " + std::to_string(least) + " to " + std::to_string(most) + ", got " + got);
    }
    return std::nullopt;
  }
  return number;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(name, "expected a number, got " + std::string(json_kind(*value)));
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < least || number > most) {
    fail(name,
         std::isfinite(most) ? "expected " + short_number(least) + " to " + short_number(most)
                             : "expected at least " + short_number(least));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fail(name, "expected true or false, got " + std::string(json_kind(*value)));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail(name, "expected a string, got " + std::string(json_kind(*value)));
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items()) {
    if (!value.is_null() && !known_.contains(name)) names.push_back(full_name(name).substr(0, 100));
  }
  names.insert(names.end(), nested_unknown_.begin(), nested_unknown_.end());
  return names;
}

}  // namespace baton
