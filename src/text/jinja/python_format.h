// How Python 3 writes values: str(), repr() and json.dumps(). A chat template prints tools and
// arguments through these, and a model has seen exactly that text.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace baton::jinja {

std::string integer_text(Integer value);

// The shortest digits that read back as the same number, with Python's choice of notation.
std::string float_repr(double value);

// What {{ value }} prints: a string itself, an undefined value nothing.
MarkedText str_of(const Value& value);
MarkedText repr_of(const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps without HTML escaping. Nothing, with the reason in `error`, for what JSON lacks.
std::optional<MarkedText> json_of(const Value& value, const JsonStyle& style, std::string& error);

}  // namespace baton::jinja
