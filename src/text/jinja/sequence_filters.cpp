#include "text/jinja/sequence_filters.h"

#include <algorithm>
#include <array>
#include <string>

#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_format.h"

namespace baton::jinja {
namespace {

// "a.b.0": attributes one after another; digits are positions.
Value follow(Interpreter& run, Value value, std::string_view path) {
  while (!path.empty() && !run.failed()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string part(path.substr(0, dot));
    const bool is_number = part.find_first_not_of("0123456789") == std::string::npos;
    value = is_number && part.size() < 9 ? item(run, value, Value::integer(std::stoi(part)))
                                         : item(run, value, Value(part));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

std::string path_of(const Value& attribute) {
  return str_of(attribute).bytes();
}

// What map and select go over: nothing of any false value, None included.
std::vector<Value> items_if_any(Interpreter& run, const Value& input) {
  return input.truth() ? iterate(run, input) : std::vector<Value>();
}

// The arguments after the first `count`.
Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  const size_t used = std::min(count, rest.positional.size());
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(used));
  return rest;
}

Value map(Interpreter& run, const Value& input, const Arguments& arguments) {
  const std::vector<Value> items = items_if_any(run, input);
  List out;
  const Value* attribute = arguments.positional.empty() ? arguments.find(9, "attribute") : nullptr;
  if (attribute != nullptr) {
    const Value* fallback = arguments.find(9, "default");
    for (const Value& value : items) {
      const Value found = follow(run, value, path_of(*attribute));
      const bool missing = found.is_undefined() && fallback != nullptr;
      out.items.push_back(missing ? *fallback : found);
    }
    return Value(std::move(out));
  }
  if (arguments.positional.empty()) return run.fail("map expected a filter or attribute=");
  const std::string name = path_of(arguments.positional[0]);
  const Filter* filter = find_filter(name);
  if (filter == nullptr) return run.fail("no filter named '" + name + "'");
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& value : items) out.items.push_back(filter->apply(run, value, rest));
  return Value(std::move(out));
}

// With `by_attribute` the first argument names what is tested; then come a test and its
// arguments. Without a test, truth decides.
Value select_items(Interpreter& run,
                   const Value& input,
                   const Arguments& arguments,
                   bool by_attribute,
                   bool wanted) {
  const size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) return run.fail("expected the name of an attribute");
  const Test* test = nullptr;
  if (arguments.positional.size() > first) {
    const std::string name = path_of(arguments.positional[first]);
    test = find_test(name);
    if (test == nullptr) return run.fail("no test named '" + name + "'");
  }
  const Arguments rest = rest_of(arguments, first + 1);
  List out;
  for (const Value& value : items_if_any(run, input)) {
    const Value tested =
        by_attribute ? follow(run, value, path_of(arguments.positional[0])) : value;
    const bool holds = test == nullptr ? tested.truth() : test->holds(run, tested, rest);
    if (run.failed()) return {};
    if (holds == wanted) out.items.push_back(value);
  }
  return Value(std::move(out));
}
Value select(Interpreter& run, const Value& input, const Arguments& arguments) {
  return select_items(run, input, arguments, false, true);
}
Value reject(Interpreter& run, const Value& input, const Arguments& arguments) {
  return select_items(run, input, arguments, false, false);
}
Value selectattr(Interpreter& run, const Value& input, const Arguments& arguments) {
  return select_items(run, input, arguments, true, true);
}
Value rejectattr(Interpreter& run, const Value& input, const Arguments& arguments) {
  return select_items(run, input, arguments, true, false);
}

Value join(Interpreter& run, const Value& input, const Arguments& arguments) {
  std::vector<Value> items = iterate(run, input);
  const Value* separator = arguments.find(0, "d");
  if (const Value* attribute = arguments.find(1, "attribute")) {
    for (Value& value : items) value = follow(run, value, path_of(*attribute));
  }
  return Value(joined(items, separator == nullptr ? MarkedText() : str_of(*separator)));
}

Value first(Interpreter& run, const Value& input, const Arguments&) {
  std::vector<Value> items = iterate(run, input);
  return items.empty() ? Value::undefined("no first item, sequence was empty") : items.front();
}
Value last(Interpreter& run, const Value& input, const Arguments&) {
  std::vector<Value> items = iterate(run, input);
  return items.empty() ? Value::undefined("no last item, sequence was empty") : items.back();
}
Value list(Interpreter& run, const Value& input, const Arguments&) {
  return Value(List{iterate(run, input), false, false});
}

Value reverse(Interpreter& run, const Value& input, const Arguments&) {
  std::vector<Value> items = iterate(run, input);
  std::reverse(items.begin(), items.end());
  if (input.text() != nullptr) return Value(joined(items, MarkedText()));
  return Value(List{std::move(items), false, false});
}

bool flag(const Arguments& arguments, size_t i, std::string_view name) {
  const Value* value = arguments.find(i, name);
  return value != nullptr && value->truth();
}

Value without_case(const Value& value) {
  return value.text() == nullptr ? value : Value(lower(*value.text()));
}

// Sorts by key, keeping the order of equals. Fails if Python would not order the keys.
void sort_by(Interpreter& run, std::vector<std::pair<Value, Value>>& keyed, bool reversed) {
  bool ordered = true;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const std::optional<int> order = reversed ? b.first.compare(a.first) : a.first.compare(b.first);
    ordered = ordered && order.has_value();
    return order.value_or(0) < 0;
  });
  if (!ordered) run.fail("cannot sort values of different types");
}

Value sort(Interpreter& run, const Value& input, const Arguments& arguments) {
  const bool case_sensitive = flag(arguments, 1, "case_sensitive");
  const Value* attribute = arguments.find(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& value : iterate(run, input)) {
    Value key = attribute == nullptr ? value : follow(run, value, path_of(*attribute));
    keyed.emplace_back(case_sensitive ? std::move(key) : without_case(key), value);
  }
  sort_by(run, keyed, flag(arguments, 0, "reverse"));
  List out;
  for (auto& [key, value] : keyed) out.items.push_back(std::move(value));
  return Value(std::move(out));
}

Value dictsort(Interpreter& run, const Value& input, const Arguments& arguments) {
  if (input.dict() == nullptr) return run.fail("dictsort expected a dict");
  const Value* by = arguments.find(1, "by");
  const bool by_value = by != nullptr && path_of(*by) == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [name, value] : input.dict()->items) {
    const Value& key = by_value ? value : name;
    keyed.emplace_back(flag(arguments, 0, "case_sensitive") ? key : without_case(key),
                       Value(List{{name, value}, true, false}));
  }
  sort_by(run, keyed, flag(arguments, 2, "reverse"));
  List out;
  for (auto& [key, pair] : keyed) out.items.push_back(std::move(pair));
  return Value(std::move(out));
}

Value unique(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(1, "attribute");
  std::vector<Value> seen;
  List out;
  for (const Value& value : iterate(run, input)) {
    Value key = attribute == nullptr ? value : follow(run, value, path_of(*attribute));
    if (!flag(arguments, 0, "case_sensitive")) key = without_case(key);
    const bool known = std::any_of(
        seen.begin(), seen.end(), [&](const Value& other) { return other.equals(key); });
    if (known) continue;
    seen.push_back(std::move(key));
    out.items.push_back(value);
  }
  return Value(std::move(out));
}

Value sum(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start == nullptr ? Value::integer(0) : *start;
  for (const Value& value : iterate(run, input)) {
    total = binary_operation(
        run, "+", total, attribute == nullptr ? value : follow(run, value, path_of(*attribute)));
    if (run.failed()) break;
  }
  return total;
}

Value extreme(Interpreter& run, const Value& input, const Arguments& arguments, int wanted) {
  const Value* attribute = arguments.find(1, "attribute");
  const std::vector<Value> items = iterate(run, input);
  if (items.empty()) return Value::undefined("no item, sequence was empty");
  const auto key = [&](const Value& value) {
    Value k = attribute == nullptr ? value : follow(run, value, path_of(*attribute));
    return flag(arguments, 0, "case_sensitive") ? k : without_case(k);
  };
  const Value* best = &items[0];
  for (const Value& value : items) {
    const std::optional<int> order = key(value).compare(key(*best));
    if (!order) return run.fail("cannot compare values of different types");
    if (*order == wanted) best = &value;
  }
  return *best;
}
Value min(Interpreter& run, const Value& input, const Arguments& arguments) {
  return extreme(run, input, arguments, -1);
}
Value max(Interpreter& run, const Value& input, const Arguments& arguments) {
  return extreme(run, input, arguments, 1);
}

Value items(Interpreter& run, const Value& input, const Arguments&) {
  if (input.is_undefined()) return Value(List{});
  if (input.dict() == nullptr) return run.fail("items expected a mapping");
  List out;
  for (const auto& [key, value] : input.dict()->items) {
    out.items.emplace_back(List{{key, value}, true, false});
  }
  return Value(std::move(out));
}

Value batch(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* count = arguments.find(0, "linecount");
  const Value* fill = arguments.find(1, "fill_with");
  const auto size = static_cast<size_t>(
      std::clamp<Integer>(count == nullptr ? 1 : count->integral().value_or(1), 1, 1'000'000));
  List out;
  std::vector<Value> line;
  const std::vector<Value> all = iterate(run, input);
  for (size_t i = 0; i < all.size(); ++i) {
    line.push_back(all[i]);
    if (line.size() < size && i + 1 < all.size()) continue;
    while (fill != nullptr && line.size() < size) line.push_back(*fill);
    out.items.emplace_back(List{std::move(line), false, false});
    line.clear();
  }
  return Value(std::move(out));
}

// Into so many lists of nearly equal length, the longer ones first.
Value slice_filter(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* count = arguments.find(0, "slices");
  const Value* fill = arguments.find(1, "fill_with");
  const auto slices = static_cast<size_t>(
      std::clamp<Integer>(count == nullptr ? 1 : count->integral().value_or(1), 1, 1'000'000));
  const std::vector<Value> all = iterate(run, input);
  const size_t longer = all.size() % slices;
  List out;
  auto next = all.begin();
  for (size_t i = 0; i < slices; ++i) {
    const auto size = static_cast<ptrdiff_t>(all.size() / slices + (i < longer ? 1 : 0));
    std::vector<Value> part(next, next + size);
    next += size;
    if (fill != nullptr && longer > 0 && i >= longer) part.push_back(*fill);
    out.items.emplace_back(List{std::move(part), false, false});
  }
  return Value(std::move(out));
}

Value groupby(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  if (attribute == nullptr) return run.fail("groupby expected an attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& value : iterate(run, input)) {
    keyed.emplace_back(follow(run, value, path_of(*attribute)), value);
  }
  sort_by(run, keyed, false);
  List out;
  for (size_t i = 0; i < keyed.size();) {
    List group;
    const Value key = keyed[i].first;
    for (; i < keyed.size() && keyed[i].first.equals(key); ++i) {
      group.items.push_back(keyed[i].second);
    }
    out.items.emplace_back(List{{key, Value(std::move(group))}, true, true});
  }
  return Value(std::move(out));
}

constexpr std::array kFilters = {
    Filter{"batch", "linecount fill_with", batch},
    Filter{"dictsort", "case_sensitive by reverse", dictsort},
    Filter{"first", "", first},
    Filter{"groupby", "attribute default case_sensitive", groupby},
    Filter{"items", "", items},
    Filter{"join", "d attribute", join},
    Filter{"last", "", last},
    Filter{"list", "", list},
    Filter{"map", "*", map},
    Filter{"max", "case_sensitive attribute", max},
    Filter{"min", "case_sensitive attribute", min},
    Filter{"reject", "*", reject},
    Filter{"rejectattr", "*", rejectattr},
    Filter{"reverse", "", reverse},
    Filter{"select", "*", select},
    Filter{"selectattr", "*", selectattr},
    Filter{"slice", "slices fill_with", slice_filter},
    Filter{"sort", "reverse case_sensitive attribute", sort},
    Filter{"sum", "attribute start", sum},
    Filter{"unique", "case_sensitive attribute", unique},
};

}  // namespace

const Filter* find_sequence_filter(std::string_view name) {
  const auto found = std::find_if(
      kFilters.begin(), kFilters.end(), [&](const Filter& filter) { return filter.name == name; });
  return found == kFilters.end() ? nullptr : &*found;
}

}  // namespace baton::jinja
