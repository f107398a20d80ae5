#include "text/jinja/value.h"

#include <algorithm>

namespace baton::jinja {
namespace {

std::optional<int> compare_lists(const List& a, const List& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!a.items[i].equals(b.items[i])) return a.items[i].compare(b.items[i]);
  }
  return static_cast<int>(a.items.size() > b.items.size()) -
         static_cast<int>(a.items.size() < b.items.size());
}

bool equal_lists(const List& a, const List& b) {
  return a.is_tuple == b.is_tuple &&
         std::equal(a.items.begin(),
                    a.items.end(),
                    b.items.begin(),
                    b.items.end(),
                    [](const Value& x, const Value& y) { return x.equals(y); });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* other = b.find(item.first);
           return other != nullptr && item.second.equals(*other);
         });
}

}  // namespace

Value::Value(List v) {
  for (const Value& item : v.items) v.nesting = std::max(v.nesting, item.nesting() + 1);
  value_ = std::make_shared<const List>(std::move(v));
}

Value::Value(Dict v) {
  for (const auto& [key, item] : v.items) {
    v.nesting = std::max({v.nesting, key.nesting() + 1, item.nesting() + 1});
  }
  value_ = std::make_shared<const Dict>(std::move(v));
}

const Value* Dict::find(const Value& key) const {
  if (key.text() != nullptr) return find(key.text()->view());
  for (const auto& [name, value] : items) {
    if (name.equals(key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.text() != nullptr && name.text()->view() == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  for (auto& [name, old] : items) {
    if (name.equals(key)) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

Value Value::from_json(const Json& json, bool untrusted) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(static_cast<Integer>(json.get<int64_t>()));
    case Json::value_t::number_unsigned:
      return Value(static_cast<Integer>(json.get<uint64_t>()));
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(MarkedText(json.get_ref<const std::string&>(), untrusted));
    case Json::value_t::array: {
      List list;
      list.items.reserve(json.size());
      for (const Json& item : json) list.items.push_back(from_json(item, untrusted));
      return Value(std::move(list));
    }
    case Json::value_t::object: {
      Dict dict;
      dict.items.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        dict.items.emplace_back(Value(MarkedText(key, untrusted)), from_json(item, untrusted));
      }
      return Value(std::move(dict));
    }
    default:
      return Value(None{});
  }
}

std::shared_ptr<const List> Value::shared_list() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&value_);
  return list == nullptr ? nullptr : *list;
}

std::optional<Integer> Value::integral() const {
  if (const bool* flag = boolean()) return *flag ? 1 : 0;
  if (const Integer* number = std::get_if<Integer>(&value_)) return *number;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* number = std::get_if<double>(&value_)) return *number;
  if (const std::optional<Integer> number = integral()) return static_cast<double>(*number);
  return std::nullopt;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const std::optional<double> value = number()) return *value != 0.0;
  if (text() != nullptr) return !text()->empty();
  if (list() != nullptr) return !list()->items.empty();
  if (dict() != nullptr) return !dict()->items.empty();
  return true;
}

bool Value::equals(const Value& other) const {
  if (integral() && other.integral()) return *integral() == *other.integral();
  if (number() && other.number()) return *number() == *other.number();
  if (text() != nullptr && other.text() != nullptr) return text()->view() == other.text()->view();
  if (list() != nullptr && other.list() != nullptr) return equal_lists(*list(), *other.list());
  if (dict() != nullptr && other.dict() != nullptr) return equal_dicts(*dict(), *other.dict());
  if (value_.index() != other.value_.index()) return false;
  return is_undefined() || is_none() || same_object(other);
}

bool Value::same_object(const Value& other) const {
  if (value_.index() != other.value_.index()) return false;
  if (name_space() != nullptr) return name_space() == other.name_space();
  if (loop() != nullptr) return loop() == other.loop();
  if (function() != nullptr) return function() == other.function();
  if (list() != nullptr) return list() == other.list();
  if (dict() != nullptr) return dict() == other.dict();
  return equals(other);
}

std::optional<int> Value::compare(const Value& other) const {
  if (integral() && other.integral()) {
    return static_cast<int>(*integral() > *other.integral()) -
           static_cast<int>(*integral() < *other.integral());
  }
  if (number() && other.number()) {
    return static_cast<int>(*number() > *other.number()) -
           static_cast<int>(*number() < *other.number());
  }
  // Byte order of UTF-8 is the order of code points, which is Python's.
  if (text() != nullptr && other.text() != nullptr) {
    const int order = text()->view().compare(other.text()->view());
    return static_cast<int>(order > 0) - static_cast<int>(order < 0);
  }
  if (list() != nullptr && other.list() != nullptr) return compare_lists(*list(), *other.list());
  return std::nullopt;
}

const char* Value::type_name() const {
  if (boolean() != nullptr) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_none()) return "NoneType";
  if (text() != nullptr) return "str";
  if (list() != nullptr) return list()->is_tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  if (name_space() != nullptr) return "Namespace";
  if (loop() != nullptr) return "LoopContext";
  if (function() != nullptr) return "function";
  return "Undefined";
}

int Value::nesting() const {
  if (list() != nullptr) return list()->nesting;
  if (dict() != nullptr) return dict()->nesting;
  if (function() != nullptr) return function()->nesting;
  return loop() != nullptr ? loop()->items->nesting + 1 : 0;
}

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace baton::jinja
