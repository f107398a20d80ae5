// Builds a Json value from the events of a parser: nlohmann's own, or another that walks what it
// read. The library's way of building looks up every key among all keys before it: an object of
// 100,000 names would take minutes. One per text, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace baton {

// An event that returns false ends the parsing.
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit JsonBuilder(size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override;

  Json take() { return std::move(root_); }
  bool too_deep() const { return too_deep_; }
  // What the parser said.
  const std::string& problem() const { return problem_; }

 private:
  struct Open {
    Json* value;
    Json* slot = nullptr;                                 // of an object: where the next value goes
    std::unordered_map<std::string, size_t> places = {};  // of a large object's keys
  };

  static Json& member(Open& object, std::string&& name);
  Json& put(Json&& value);
  bool add(Json&& value) {
    put(std::move(value));
    return true;
  }
  bool open(Json&& empty);
  bool close() {
    open_.pop_back();
    return true;
  }

  const size_t max_depth_;
  Json root_;
  std::vector<Open> open_;
  bool too_deep_ = false;
  std::string problem_;
};

}  // namespace baton
