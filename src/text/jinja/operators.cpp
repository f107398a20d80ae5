#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/python_format.h"
#include "text/utf8.h"

namespace baton::jinja {
namespace {

constexpr size_t kMaxRepeated = 1'000'000;  // bytes or items
constexpr Integer kMaxInteger = std::numeric_limits<int64_t>::max();

Value type_error(Interpreter& run, std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) return run.fail(a.undefined()->reason);
  if (b.is_undefined()) return run.fail(b.undefined()->reason);
  return run.fail("unsupported operand types for " + std::string(op) + ": '" + a.type_name() +
                  "' and '" + b.type_name() + "'");
}

// Intermediate results stay far from the end of 128 bits, so that no operation overflows.
Value bounded(Interpreter& run, Integer value) {
  if (value > kMaxInteger * 4 || value < -kMaxInteger * 4) return run.fail("integer too large");
  return Value(value);
}

Integer floor_divide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_power(Interpreter& run, Integer base, Integer exponent) {
  if (exponent < 0) {
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Integer result = 1;
  for (Integer i = 0; i < exponent && result != 0; ++i) {
    if (base == 1 || (base == -1 && i > 1)) break;
    result *= base;
    if (result > kMaxInteger || result < -kMaxInteger) return run.fail("integer too large");
  }
  if (base == -1) return Value(static_cast<Integer>(exponent % 2 == 0 ? 1 : -1));
  return Value(result);
}

Value integer_operation(Interpreter& run, std::string_view op, Integer a, Integer b) {
  if (op == "+") return bounded(run, a + b);
  if (op == "-") return bounded(run, a - b);
  if (op == "*") {
    const bool fits = std::abs(static_cast<double>(a) * static_cast<double>(b)) < 3e19;
    return fits ? bounded(run, a * b) : run.fail("integer too large");
  }
  if (op == "**") return integer_power(run, a, b);
  if (b == 0) return run.fail("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (op == "//") return Value(floor_divide(a, b));
  return Value(a - floor_divide(a, b) * b);
}

Value float_operation(Interpreter& run, std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0.0) return run.fail("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  return Value(a - std::floor(a / b) * b);
}

Value repeat(Interpreter& run, const Value& value, Integer count) {
  const Integer size = static_cast<Integer>(value.text() != nullptr ? value.text()->size()
                                                                    : value.list()->items.size());
  if (count > 0 && size * count > static_cast<Integer>(kMaxRepeated)) {
    return run.fail("repeated value too large");
  }
  if (count > 0 && !run.spend(static_cast<uint64_t>(size * count))) return {};
  if (value.text() != nullptr) {
    MarkedText out;
    for (Integer i = 0; i < count; ++i) out.append(*value.text());
    return Value(std::move(out));
  }
  List out;
  for (Integer i = 0; i < count; ++i) {
    out.items.insert(out.items.end(), value.list()->items.begin(), value.list()->items.end());
  }
  return Value(std::move(out));
}

bool contains(Interpreter& run, const Value& container, const Value& value) {
  if (container.text() != nullptr) {
    if (value.text() != nullptr) {
      return container.text()->bytes().find(value.text()->bytes()) != std::string::npos;
    }
    run.fail(std::string("'in <string>' requires string as left operand, not ") +
             value.type_name());
    return false;
  }
  if (container.dict() != nullptr) return container.dict()->find(value) != nullptr;
  const std::vector<Value> items = iterate(run, container);
  return std::any_of(
      items.begin(), items.end(), [&](const Value& candidate) { return candidate.equals(value); });
}

// The positions that a[start:stop:step] takes, for a sequence of `size`.
std::vector<size_t> slice_positions(Integer size,
                                    const Value& start,
                                    const Value& stop,
                                    Integer step) {
  const auto bound = [&](const Value& part, Integer fallback) {
    const std::optional<Integer> given = part.integral();
    if (!given) return fallback;
    const Integer value = *given < 0 ? *given + size : *given;
    return step > 0 ? std::clamp<Integer>(value, 0, size)
                    : std::clamp<Integer>(value, -1, size - 1);
  };
  const Integer first = bound(start, step > 0 ? 0 : size - 1);
  const Integer last = bound(stop, step > 0 ? size : -1);
  std::vector<size_t> positions;
  for (Integer i = first; step > 0 ? i < last : i > last; i += step) {
    positions.push_back(static_cast<size_t>(i));
  }
  return positions;
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const std::vector<Value>& items = loop.items->items;
  const size_t left = items.size() - loop.index - 1;
  if (name == "index") return Value::size(loop.index + 1);
  if (name == "index0") return Value::size(loop.index);
  if (name == "revindex") return Value::size(left + 1);
  if (name == "revindex0") return Value::size(left);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(left == 0);
  if (name == "length") return Value::size(items.size());
  if (name == "depth") return Value::size(loop.depth);
  if (name == "depth0") return Value::size(loop.depth - 1);
  if (name == "previtem") {
    return loop.index > 0 ? items[loop.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return left > 0 ? items[loop.index + 1] : Value::undefined("there is no next item");
  }
  return Value::undefined("'LoopContext' has no attribute '" + name + "'");
}

// The bytes of one character, counted from the end if negative; an empty range if there is none.
TextRange character_at(std::string_view text, Integer position) {
  size_t begin = 0;
  if (position < 0) {
    begin = text.size();
    for (; position < 0; ++position) {
      if (begin == 0) return {0, 0};
      --begin;
      while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80) --begin;
    }
  }
  for (; begin < text.size() && position > 0; --position) begin += decode_utf8(text, begin).length;
  if (begin >= text.size()) return {0, 0};
  return {begin, begin + decode_utf8(text, begin).length};
}

Value missing(const Value& object, const std::string& name) {
  const std::string what =
      object.is_none() ? "'None'" : std::string("'") + object.type_name() + " object'";
  return Value::undefined(what + " has no attribute '" + name + "'");
}

}  // namespace

Value binary_operation(Interpreter& run, std::string_view op, const Value& a, const Value& b) {
  if (a.integral() && b.integral()) return integer_operation(run, op, *a.integral(), *b.integral());
  if (a.number() && b.number()) return float_operation(run, op, *a.number(), *b.number());
  if (op == "+" && a.text() != nullptr && b.text() != nullptr) {
    MarkedText joined = *a.text();
    joined.append(*b.text());
    if (joined.size() > Interpreter::kMaxTextBytes) return run.fail("text too large");
    return run.spend(joined.size() / Interpreter::kBytesPerStep) ? Value(std::move(joined))
                                                                 : Value();
  }
  if (op == "+" && a.list() != nullptr && b.list() != nullptr &&
      a.list()->is_tuple == b.list()->is_tuple) {
    List joined = *a.list();
    joined.items.insert(joined.items.end(), b.list()->items.begin(), b.list()->items.end());
    return Value(std::move(joined));
  }
  const auto is_sequence = [](const Value& v) {
    return v.text() != nullptr || v.list() != nullptr;
  };
  if (op == "*" && is_sequence(a) && b.integral()) return repeat(run, a, *b.integral());
  if (op == "*" && is_sequence(b) && a.integral()) return repeat(run, b, *a.integral());
  if (op == "%" && a.text() != nullptr) {
    Arguments arguments;
    if (b.list() != nullptr && b.list()->is_tuple) {
      arguments.positional = b.list()->items;
    } else {
      arguments.positional.push_back(b);
    }
    return percent_format(run, *a.text(), arguments);
  }
  return type_error(run, op, a, b);
}

bool comparison(Interpreter& run, std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return a.equals(b);
  if (op == "!=") return !a.equals(b);
  if (op == "in") return contains(run, b, a);
  if (op == "not in") return !contains(run, b, a);
  const std::optional<int> order = a.compare(b);
  if (!order) {
    type_error(run, op, a, b);
    return false;
  }
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  return op == ">" ? *order > 0 : *order >= 0;
}

Value attribute(Interpreter& run, const Value& object, const std::string& name) {
  if (object.is_undefined()) return run.fail(object.undefined()->reason);
  if (object.loop() != nullptr && find_method(object, name) == nullptr) {
    return loop_attribute(*object.loop(), name);
  }
  if (const Method* method = find_method(object, name)) {
    const auto call = [object, method](Interpreter& r, const Arguments& arguments) {
      return method->call(r, object, arguments);
    };
    return Value(Function{name, call, object.nesting() + 1});
  }
  if (object.list() != nullptr && object.list()->is_group) {
    if (name == "grouper") return object.list()->items[0];
    if (name == "list") return object.list()->items[1];
  }
  const Dict* dict = object.dict();
  if (object.name_space() != nullptr) dict = &object.name_space()->attributes;
  const Value* value = dict != nullptr ? dict->find(name) : nullptr;
  return value != nullptr ? *value : missing(object, name);
}

Value item(Interpreter& run, const Value& object, const Value& index) {
  if (object.is_undefined()) return run.fail(object.undefined()->reason);
  if (object.dict() != nullptr) {
    if (const Value* value = object.dict()->find(index)) return *value;
  } else if (index.integral() && object.text() != nullptr) {
    const TextRange c = character_at(object.text()->view(), *index.integral());
    if (c.begin < c.end) return Value(object.text()->slice(c.begin, c.end));
  } else if (index.integral() && object.list() != nullptr) {
    const std::vector<Value>& items = object.list()->items;
    const Integer size = static_cast<Integer>(items.size());
    const Integer position = *index.integral() < 0 ? *index.integral() + size : *index.integral();
    if (position >= 0 && position < size) return items[static_cast<size_t>(position)];
  }
  if (index.text() != nullptr) return attribute(run, object, index.text()->bytes());
  return missing(object, str_of(index).bytes());
}

Value slice(Interpreter& run,
            const Value& object,
            const Value& start,
            const Value& stop,
            const Value& step) {
  const Integer stride = step.integral().value_or(1);
  if (stride == 0) return run.fail("slice step cannot be zero");
  if (object.list() != nullptr) {
    List out{{}, object.list()->is_tuple, false};
    const auto size = static_cast<Integer>(object.list()->items.size());
    for (const size_t i : slice_positions(size, start, stop, stride)) {
      out.items.push_back(object.list()->items[i]);
    }
    return Value(std::move(out));
  }
  if (object.text() != nullptr) {
    const std::vector<size_t> offsets = character_offsets(object.text()->view());
    MarkedText out;
    for (const size_t i :
         slice_positions(static_cast<Integer>(offsets.size()) - 1, start, stop, stride)) {
      out.append(*object.text(), offsets[i], offsets[i + 1]);
    }
    return Value(std::move(out));
  }
  if (object.is_undefined()) return run.fail(object.undefined()->reason);
  return run.fail(std::string("'") + object.type_name() + "' object cannot be sliced");
}

std::vector<Value> iterate(Interpreter& run, const Value& value) {
  if (value.list() != nullptr) {
    return run.spend(value.list()->items.size() / 16) ? value.list()->items : std::vector<Value>();
  }
  std::vector<Value> items;
  if (value.dict() != nullptr) {
    for (const auto& [key, unused] : value.dict()->items) items.push_back(key);
  } else if (value.text() != nullptr) {
    if (!run.spend(value.text()->size())) return items;
    const std::vector<size_t> offsets = character_offsets(value.text()->view());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.emplace_back(value.text()->slice(offsets[i], offsets[i + 1]));
    }
  } else if (!value.is_undefined()) {
    run.fail(std::string("'") + value.type_name() + "' object is not iterable");
  }
  return items;
}

std::vector<size_t> character_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); i += decode_utf8(text, i).length) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace baton::jinja
