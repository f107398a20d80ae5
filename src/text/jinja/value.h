// Values of the template language, with Python's meaning: truth, equality, order, str() and
// repr() are those of Python 3, because templates are written against Jinja2.
// Values share their contents; templates cannot change a list or a dict, only a namespace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/jinja/marked_text.h"

namespace baton::jinja {

class Value;
class Interpreter;
struct Arguments;

// Wide enough for every integer that JSON brings and for sums of them.
using Integer = __int128_t;

// What a name or attribute that does not exist gives. Printing it is "", using it is an error.
struct Undefined {
  std::string reason;  // "'x' is undefined"
};
struct None {};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_group = false;  // of groupby: .grouper and .list name its two items
  int nesting = 1;        // of a Value: its levels, with those of the items
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order of insertion
  int nesting = 1;                             // as of a list

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};

// namespace(): the one thing whose attributes a template may set. The interpreter owns them all,
// and empties them one by one: what they hold does not nest.
struct Namespace {
  Dict attributes;
};

// What `loop` names inside a for.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
  size_t depth = 1;
  std::shared_ptr<Value> last_changed;  // what loop.changed() was called with before
};

struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
  int nesting = 1;  // more if `call` holds a value that nests
};

class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;
  using Variant = std::variant<Undefined,
                               None,
                               bool,
                               Integer,
                               double,
                               Text,
                               std::shared_ptr<const List>,
                               std::shared_ptr<const Dict>,
                               std::shared_ptr<Namespace>,
                               std::shared_ptr<const Loop>,
                               std::shared_ptr<const Function>>;

  Value() = default;
  explicit Value(Undefined v) : value_(std::move(v)) {}
  explicit Value(None v) : value_(v) {}
  explicit Value(bool v) : value_(v) {}
  explicit Value(Integer v) : value_(v) {}
  explicit Value(double v) : value_(v) {}
  explicit Value(MarkedText v) : value_(std::make_shared<const MarkedText>(std::move(v))) {}
  explicit Value(std::string trusted) : Value(MarkedText(std::move(trusted))) {}
  explicit Value(const char* trusted) : Value(std::string(trusted)) {}
  explicit Value(List v);
  explicit Value(Dict v);
  explicit Value(Function v) : value_(std::make_shared<const Function>(std::move(v))) {}
  explicit Value(std::shared_ptr<const List> v) : value_(std::move(v)) {}
  explicit Value(std::shared_ptr<Namespace> v) : value_(std::move(v)) {}
  explicit Value(std::shared_ptr<const Loop> v) : value_(std::move(v)) {}

  static Value integer(int64_t v) { return Value(static_cast<Integer>(v)); }
  static Value size(size_t v) { return Value(static_cast<Integer>(v)); }
  static Value undefined(std::string reason) { return Value(Undefined{std::move(reason)}); }

  // Strings are marked as coming from outside if `untrusted`.
  static Value from_json(const Json& json, bool untrusted);

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  // Null when it is something else.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const MarkedText* text() const { return pointee<Text>(); }
  const List* list() const { return pointee<std::shared_ptr<const List>>(); }
  std::shared_ptr<const List> shared_list() const;
  const Dict* dict() const { return pointee<std::shared_ptr<const Dict>>(); }
  Namespace* name_space() const { return pointee<std::shared_ptr<Namespace>>(); }
  const Loop* loop() const { return pointee<std::shared_ptr<const Loop>>(); }
  const Function* function() const { return pointee<std::shared_ptr<const Function>>(); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&value_); }

  // Python counts bool as a number: True is 1.
  std::optional<Integer> integral() const;
  std::optional<double> number() const;
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_int() const { return std::holds_alternative<Integer>(value_); }

  bool truth() const;
  bool equals(const Value& other) const;
  bool same_object(const Value& other) const;  // Python's `is`, as far as templates can tell

  // <0, 0, >0; nothing if Python would not order them.
  std::optional<int> compare(const Value& other) const;

  const char* type_name() const;  // Python's: "str", "dict", ...

  // Levels of lists, dicts, functions and loops: what printing, comparing and freeing go down.
  int nesting() const;

 private:
  template <typename Pointer>
  auto pointee() const -> decltype(std::declval<Pointer>().get()) {
    const Pointer* p = std::get_if<Pointer>(&value_);
    return p == nullptr ? nullptr : p->get();
  }

  Variant value_;
};

// A call's arguments, already evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // By position or by name; null if it was not given.
  const Value* find(size_t position, std::string_view name) const;
};

}  // namespace baton::jinja
