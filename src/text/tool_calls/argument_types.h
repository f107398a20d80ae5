// Which JSON types a tool's schema allows for one argument, and how a value the model wrote as
// text becomes JSON (models.md F.1): strings are raw text, everything else is JSON. Values are
// never escaped or unescaped on the way.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace baton {

// The JSON types a schema allows; `known` is false when the schema says nothing.
struct ArgumentTypes {
  bool known = false;
  bool string = false;
  bool integer = false;
  bool number = false;
  bool boolean = false;
  bool null = false;
  bool array = false;
  bool object = false;

  bool only_string() const {
    return known && string && !(integer || number || boolean || null || array || object);
  }
};

// `parameters` is the tool's schema of an object; follows $ref into it, anyOf / oneOf / allOf,
// enum and const. Cyclic references end.
ArgumentTypes argument_types(const Json& parameters, std::string_view name);

// The JSON text of a value: a string literal, or the value itself when the schema allows its
// type. Without a schema: JSON (or a Python True / False / None) when the whole text is a value
// that is not a string, a string otherwise.
std::string argument_json(const ArgumentTypes& types, std::string_view text);

}  // namespace baton
