#include "model/config_reader.h"

#include <cmath>
#include <utility>

namespace baton {
namespace {

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string range(const std::string& what, double least, double most) {
  const auto digits = [](double v) {
    std::string text = std::to_string(v);
    if (text.find('.') != std::string::npos) {
      text.erase(text.find_last_not_of('0') + 1);
      if (text.back() == '.') text.pop_back();
    }
    return text;
  };
  return what + " in " + digits(least) + ".." + digits(most);
}

}  // namespace

ConfigLedger::ConfigLedger(std::string file, const Json& root) : file_(std::move(file)) {
  if (root.is_object()) collect("", root);
}

void ConfigLedger::collect(const std::string& prefix, const Json& object) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (value.is_object() && !value.empty()) {
      collect(path + ".", value);
      continue;
    }
    if (entries_.emplace(path, LedgerEntry{.key = path, .fate = KeyFate::kUnconsumed, .reason = {}})
            .second) {
      order_.push_back(path);
    }
  }
}

void ConfigLedger::mark(const std::string& path, KeyFate fate, std::string reason) {
  const auto found = entries_.find(path);
  if (found == entries_.end()) return;
  if (found->second.fate == KeyFate::kUsed) return;
  found->second.fate = fate;
  found->second.reason = std::move(reason);
}

void ConfigLedger::mark_tree(const std::string& path, KeyFate fate, const std::string& reason) {
  mark(path, fate, reason);
  const std::string prefix = path + ".";
  for (auto it = entries_.lower_bound(prefix);
       it != entries_.end() && it->first.starts_with(prefix);
       ++it) {
    mark(it->first, fate, reason);
  }
}

void ConfigLedger::fail(ErrorCode code, std::string message) {
  if (!error_) error_ = Error{code, file_ + ": " + std::move(message)};
}

std::vector<LedgerEntry> ConfigLedger::entries() const {
  std::vector<LedgerEntry> result;
  for (const std::string& path : order_) result.push_back(entries_.find(path)->second);
  return result;
}

const Json* ConfigReader::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  if (found == object_->end()) return nullptr;
  ledger_->mark(path(key), KeyFate::kUsed);
  return found->is_null() ? nullptr : &*found;
}

std::string ConfigReader::first_of(std::initializer_list<std::string_view> keys) const {
  std::string first(*keys.begin());
  const Json* chosen = nullptr;
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value == nullptr) continue;
    if (chosen == nullptr) {
      chosen = value;
      first = key;
    } else if (*value != *chosen) {
      fail(key, "the value of '" + path(first) + "', " + shown(*chosen));
    }
  }
  return first;
}

void ConfigReader::fail(std::string_view key, const std::string& expected) const {
  const auto found = object_->find(std::string(key));
  const std::string got = found == object_->end() ? "nothing" : shown(*found);
  ledger_->fail(ErrorCode::kInvalidArgument,
                "key '" + path(key) + "': expected " + expected + ", got " + got);
}

void ConfigReader::fail_missing(std::string_view key, const std::string& expected) const {
  ledger_->fail(ErrorCode::kInvalidArgument,
                "key '" + path(key) + "' is missing: expected " + expected);
}

void ConfigReader::fail_unsupported(std::string_view key, const std::string& reason) const {
  const auto found = object_->find(std::string(key));
  const std::string got = found == object_->end() ? "nothing" : shown(*found);
  ledger_->fail(ErrorCode::kUnsupported, "key '" + path(key) + "' = " + got + ": " + reason);
}

int64_t ConfigReader::integer(std::string_view key, int64_t least, int64_t most) const {
  const std::string expected =
      range("an integer", static_cast<double>(least), static_cast<double>(most));
  const Json* value = find(key);
  if (value == nullptr) {
    fail_missing(key, expected);
    return least;
  }
  // 1e6 written as a float is a whole number all the same.
  const bool whole =
      value->is_number_float() && std::floor(value->get<double>()) == value->get<double>();
  if (!value->is_number_integer() && !whole) {
    fail(key, expected);
    return least;
  }
  const double wide = value->get<double>();
  if (wide < static_cast<double>(least) || wide > static_cast<double>(most)) {
    fail(key, expected);
    return least;
  }
  return static_cast<int64_t>(wide);
}

int64_t ConfigReader::integer_or(std::string_view key,
                                 int64_t fallback,
                                 int64_t least,
                                 int64_t most) const {
  return has(key) ? integer(key, least, most) : fallback;
}

double ConfigReader::number(std::string_view key, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) {
    fail_missing(key, range("a number", least, most));
    return least;
  }
  if (!value->is_number()) {
    fail(key, range("a number", least, most));
    return least;
  }
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) {
    fail(key, range("a number", least, most));
    return least;
  }
  return number;
}

double ConfigReader::number_or(std::string_view key,
                               double fallback,
                               double least,
                               double most) const {
  return has(key) ? number(key, least, most) : fallback;
}

std::optional<double> ConfigReader::optional_number(std::string_view key,
                                                    double least,
                                                    double most) const {
  if (!has(key)) return std::nullopt;
  return number(key, least, most);
}

std::optional<bool> ConfigReader::optional_boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fail(key, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

bool ConfigReader::boolean_or(std::string_view key, bool fallback) const {
  return optional_boolean(key).value_or(fallback);
}

std::string ConfigReader::string_or(std::string_view key, std::string fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    fail(key, "a string");
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::integers(std::string_view key,
                                            int64_t least,
                                            int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const std::string expected =
      range("a list of integers", static_cast<double>(least), static_cast<double>(most));
  std::vector<int64_t> result;
  if (!value->is_array()) fail(key, expected);
  for (const Json& item : *value) {
    if (!value->is_array() || !item.is_number_integer() ||
        item.get<double>() < static_cast<double>(least) ||
        item.get<double>() > static_cast<double>(most)) {
      fail(key, expected);
      return {};
    }
    result.push_back(item.get<int64_t>());
  }
  return result;
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<double> result;
  if (!value->is_array()) fail(key, "a list of numbers");
  for (const Json& item : *value) {
    if (!value->is_array() || !item.is_number()) {
      fail(key, "a list of numbers");
      return {};
    }
    result.push_back(item.get<double>());
  }
  return result;
}

std::vector<std::string> ConfigReader::strings(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::string> result;
  if (!value->is_array()) fail(key, "a list of strings");
  for (const Json& item : *value) {
    if (!value->is_array() || !item.is_string()) {
      fail(key, "a list of strings");
      return {};
    }
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    fail(key, "an object");
    return std::nullopt;
  }
  return ConfigReader(*value, *ledger_, path(key) + ".");
}

std::string ConfigReader::one_of(std::string_view key,
                                 std::string fallback,
                                 std::initializer_list<std::string_view> allowed) const {
  std::string value = string_or(key, std::move(fallback));
  std::string list;
  for (const std::string_view name : allowed) {
    if (value == name) return value;
    list += (list.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  fail(key, "one of " + list);
  return value;
}

}  // namespace baton
