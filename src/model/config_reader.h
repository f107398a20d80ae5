// Reading a JSON configuration is consuming it: every getter marks its key in a ledger, so what
// was declared but read by nobody shows. Errors are sticky: the first one is kept, getters then
// return their defaults, and the caller looks once at the end.
#pragma once

#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/config.h"

namespace baton {

constexpr int64_t kMaxCount = 0x7fffffff;  // bound of every count and width in a config

// One file's keys and their fates. Arrays are leaves; objects are entered ("a.b").
class ConfigLedger {
 public:
  ConfigLedger(std::string file, const Json& root);

  void mark(const std::string& path, KeyFate fate, std::string reason = {});
  // Marks `path` and everything below it.
  void mark_tree(const std::string& path, KeyFate fate, const std::string& reason = {});
  void fail(ErrorCode code, std::string message);

  const std::string& file() const { return file_; }
  const std::optional<Error>& error() const { return error_; }
  std::vector<LedgerEntry> entries() const;  // in the order of the file

 private:
  void collect(const std::string& prefix, const Json& object);

  std::string file_;
  std::vector<std::string> order_;
  std::map<std::string, LedgerEntry, std::less<>> entries_;
  std::optional<Error> error_;
};

// A borrowed view of one object of the file. A key that is absent or null gives the default.
class ConfigReader {
 public:
  ConfigReader(const Json& object, ConfigLedger& ledger, std::string prefix = {})
      : object_(&object), ledger_(&ledger), prefix_(std::move(prefix)) {}

  // Null when absent or null; marks the key used either way.
  const Json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The first of several spellings that is there; all of them are marked used. Fails where two
  // differ.
  std::string first_of(std::initializer_list<std::string_view> keys) const;

  int64_t integer(std::string_view key, int64_t least = 1, int64_t most = kMaxCount) const;
  int64_t integer_or(std::string_view key,
                     int64_t fallback,
                     int64_t least = 0,
                     int64_t most = kMaxCount) const;
  double number(std::string_view key, double least, double most) const;
  double number_or(std::string_view key, double fallback, double least, double most) const;
  std::optional<double> optional_number(std::string_view key, double least, double most) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::optional<bool> optional_boolean(std::string_view key) const;
  std::string string_or(std::string_view key, std::string fallback) const;
  std::vector<int64_t> integers(std::string_view key, int64_t least, int64_t most) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;
  // A nested object, or nothing.
  std::optional<ConfigReader> object(std::string_view key) const;

  // Fails unless the string at `key` (or `fallback`) is one of `allowed`.
  std::string one_of(std::string_view key,
                     std::string fallback,
                     std::initializer_list<std::string_view> allowed) const;
  // "config.json: key 'x': expected ..., got ..."
  void fail(std::string_view key, const std::string& expected) const;
  void fail_missing(std::string_view key, const std::string& expected) const;
  void fail_unsupported(std::string_view key, const std::string& reason) const;

  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  ConfigLedger& ledger() const { return *ledger_; }
  const Json& json() const { return *object_; }

 private:
  const Json* object_;
  ConfigLedger* ledger_;
  std::string prefix_;  // "" or "rope_parameters."
};

}  // namespace baton
