// The tests of the template language: {{ x is defined }}.
#include <algorithm>
#include <array>
#include <string>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace baton::jinja {
namespace {

const Value& other(Interpreter& run, const Arguments& arguments) {
  static const Value nothing;
  if (!arguments.positional.empty()) return arguments.positional[0];
  run.fail("the test expected an argument");
  return nothing;
}

bool defined(Interpreter&, const Value& v, const Arguments&) {
  return !v.is_undefined();
}
bool undefined(Interpreter&, const Value& v, const Arguments&) {
  return v.is_undefined();
}
bool none(Interpreter&, const Value& v, const Arguments&) {
  return v.is_none();
}
bool string(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr;
}
bool mapping(Interpreter&, const Value& v, const Arguments&) {
  return v.dict() != nullptr;
}
bool number(Interpreter&, const Value& v, const Arguments&) {
  return v.number().has_value();
}
bool integer(Interpreter&, const Value& v, const Arguments&) {
  return v.is_int();
}
bool floating(Interpreter&, const Value& v, const Arguments&) {
  return v.is_float();
}
bool boolean(Interpreter&, const Value& v, const Arguments&) {
  return v.boolean() != nullptr;
}
bool is_true(Interpreter&, const Value& v, const Arguments&) {
  return v.boolean() != nullptr && *v.boolean();
}
bool is_false(Interpreter&, const Value& v, const Arguments&) {
  return v.boolean() != nullptr && !*v.boolean();
}
bool callable(Interpreter&, const Value& v, const Arguments&) {
  return v.function() != nullptr;
}

// An undefined value can be iterated over: there is nothing in it.
bool iterable(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr || v.is_undefined();
}
bool sequence(Interpreter& run, const Value& v, const Arguments& a) {
  return iterable(run, v, a);
}

bool lower_test(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr && lower(*v.text()).view() == v.text()->view() &&
         upper(*v.text()).view() != v.text()->view();
}
bool upper_test(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr && upper(*v.text()).view() == v.text()->view() &&
         lower(*v.text()).view() != v.text()->view();
}

Integer remainder(Interpreter& run, const Value& v, Integer divisor) {
  if (!v.integral() || divisor == 0) {
    run.fail("the test expected integers");
    return -1;
  }
  const Integer rest = *v.integral() % divisor;
  return rest < 0 ? rest + (divisor < 0 ? -divisor : divisor) : rest;
}
bool even(Interpreter& run, const Value& v, const Arguments&) {
  return remainder(run, v, 2) == 0;
}
bool odd(Interpreter& run, const Value& v, const Arguments&) {
  return remainder(run, v, 2) == 1;
}
bool divisibleby(Interpreter& run, const Value& v, const Arguments& a) {
  return remainder(run, v, other(run, a).integral().value_or(0)) == 0;
}

bool equal(Interpreter& run, const Value& v, const Arguments& a) {
  return v.equals(other(run, a));
}
bool not_equal(Interpreter& run, const Value& v, const Arguments& a) {
  return !v.equals(other(run, a));
}
bool less(Interpreter& run, const Value& v, const Arguments& a) {
  return comparison(run, "<", v, other(run, a));
}
bool less_equal(Interpreter& run, const Value& v, const Arguments& a) {
  return comparison(run, "<=", v, other(run, a));
}
bool greater(Interpreter& run, const Value& v, const Arguments& a) {
  return comparison(run, ">", v, other(run, a));
}
bool greater_equal(Interpreter& run, const Value& v, const Arguments& a) {
  return comparison(run, ">=", v, other(run, a));
}
bool in(Interpreter& run, const Value& v, const Arguments& a) {
  return comparison(run, "in", v, other(run, a));
}
bool sameas(Interpreter& run, const Value& v, const Arguments& a) {
  return v.same_object(other(run, a));
}

constexpr std::array kTests = {
    Test{"defined", defined},
    Test{"undefined", undefined},
    Test{"none", none},
    Test{"string", string},
    Test{"mapping", mapping},
    Test{"iterable", iterable},
    Test{"sequence", sequence},
    Test{"number", number},
    Test{"integer", integer},
    Test{"float", floating},
    Test{"boolean", boolean},
    Test{"true", is_true},
    Test{"false", is_false},
    Test{"callable", callable},
    Test{"lower", lower_test},
    Test{"upper", upper_test},
    Test{"even", even},
    Test{"odd", odd},
    Test{"divisibleby", divisibleby},
    Test{"eq", equal},
    Test{"equalto", equal},
    Test{"ne", not_equal},
    Test{"lt", less},
    Test{"lessthan", less},
    Test{"le", less_equal},
    Test{"gt", greater},
    Test{"greaterthan", greater},
    Test{"ge", greater_equal},
    Test{"in", in},
    Test{"sameas", sameas},
    Test{"==", equal},
    Test{"!=", not_equal},
    Test{"<", less},
    Test{"<=", less_equal},
    Test{">", greater},
    Test{">=", greater_equal},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(
      kTests.begin(), kTests.end(), [&](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace baton::jinja
