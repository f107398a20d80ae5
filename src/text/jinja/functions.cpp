#include "text/jinja/functions.h"

#include <array>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_format.h"

namespace baton::jinja {
namespace {

constexpr size_t kMaxRange = 1'000'000;

Value range(Interpreter& run, const Arguments& arguments) {
  std::array<Integer, 3> bounds = {0, 0, 1};  // start, stop, step
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) return run.fail("range expected 1 to 3 arguments");
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Integer> value = arguments.positional[i].integral();
    if (!value) return run.fail("range expected integers");
    if (*value > std::numeric_limits<int64_t>::max() ||
        *value < std::numeric_limits<int64_t>::min()) {
      return run.fail("integer too large");
    }
    bounds[count == 1 ? 1 : i] = *value;
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return run.fail("range step must not be zero");
  List list;
  for (Integer i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (list.items.size() >= kMaxRange) return run.fail("range too large");
    list.items.emplace_back(i);
  }
  run.spend(list.items.size());
  return Value(std::move(list));
}

// dict(mapping or pairs, name=value ...)
Dict make_dict(Interpreter& run, const Arguments& arguments) {
  Dict dict;
  for (const Value& source : arguments.positional) {
    if (source.dict() != nullptr) {
      for (const auto& [key, value] : source.dict()->items) dict.set(key, value);
      continue;
    }
    for (const Value& pair : iterate(run, source)) {
      const std::vector<Value> parts = iterate(run, pair);
      if (parts.size() != 2) {
        run.fail("dict expected pairs");
        break;
      }
      dict.set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
  return dict;
}

Value dict(Interpreter& run, const Arguments& arguments) {
  return Value(make_dict(run, arguments));
}

Value name_space(Interpreter& run, const Arguments& arguments) {
  return run.make_namespace(make_dict(run, arguments));
}

// The separator from the second call on.
Value joiner(Interpreter&, const Arguments& arguments) {
  const Value* given = arguments.find(0, "sep");
  const Value separator = given == nullptr ? Value(", ") : *given;
  const auto join = [separator, used = std::make_shared<bool>(false)](Interpreter&,
                                                                      const Arguments&) {
    return std::exchange(*used, true) ? separator : Value("");
  };
  return Value(Function{"joiner", join, separator.nesting() + 1});
}

// cycler(a, b): next() gives them in turn, reset() starts over.
Value cycler(Interpreter& run, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("cycler expected values");
  const auto position = std::make_shared<size_t>(0);
  const Value values(List{arguments.positional, false, false});
  const auto next = [values, position](Interpreter&, const Arguments&) {
    return values.list()->items[(*position)++ % values.list()->items.size()];
  };
  const auto reset = [position](Interpreter&, const Arguments&) {
    *position = 0;
    return Value(None{});
  };
  Dict methods;
  methods.set(Value("next"), Value(Function{"next", next, values.nesting() + 1}));
  methods.set(Value("reset"), Value(Function{"reset", reset}));
  return run.make_namespace(std::move(methods));
}

Value raise_exception(Interpreter& run, const Arguments& arguments) {
  const Value* message = arguments.find(0, "message");
  return run.fail(message == nullptr ? "the template raised an exception"
                                     : str_of(*message).bytes());
}

Value strftime_now(Interpreter& run, const Arguments& arguments) {
  const Value* format = arguments.find(0, "format");
  if (format == nullptr || format->text() == nullptr) {
    return run.fail("strftime_now expected a format");
  }
  const std::time_t now = run.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 512> buffer{};
  const size_t size =
      std::strftime(buffer.data(), buffer.size(), format->text()->bytes().c_str(), &local);
  return Value(std::string(buffer.data(), size));
}

}  // namespace

std::optional<Value> find_function(std::string_view name) {
  if (name == "range") return Value(Function{"range", range});
  if (name == "dict") return Value(Function{"dict", dict});
  if (name == "namespace") return Value(Function{"namespace", name_space});
  if (name == "joiner") return Value(Function{"joiner", joiner});
  if (name == "cycler") return Value(Function{"cycler", cycler});
  if (name == "raise_exception") return Value(Function{"raise_exception", raise_exception});
  if (name == "strftime_now") return Value(Function{"strftime_now", strftime_now});
  return std::nullopt;
}

}  // namespace baton::jinja
