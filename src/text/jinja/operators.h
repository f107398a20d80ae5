// What operators, subscripts and attributes mean, as in Python. Errors go to the interpreter;
// the value returned then is undefined and of no use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace baton::jinja {

// + - * / // % **
Value binary_operation(Interpreter& run, std::string_view op, const Value& a, const Value& b);

// == != < <= > >= in, not in
bool comparison(Interpreter& run, std::string_view op, const Value& a, const Value& b);

// object.name: a method or an attribute first, then a key. object[index]: the other way round.
Value attribute(Interpreter& run, const Value& object, const std::string& name);
Value item(Interpreter& run, const Value& object, const Value& index);

// Null parts of the slice are undefined values.
Value slice(Interpreter& run,
            const Value& object,
            const Value& start,
            const Value& stop,
            const Value& step);

// What a for loop or list() goes over: items, keys, characters; nothing of an undefined value.
std::vector<Value> iterate(Interpreter& run, const Value& value);

// Where each character begins, and the end of the text.
std::vector<size_t> character_offsets(std::string_view text);

}  // namespace baton::jinja
