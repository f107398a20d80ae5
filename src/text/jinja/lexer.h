// Cuts a template into text and the tokens inside {{ }} and {% %}. Whitespace as Hugging Face
// sets Jinja2 up: trim_blocks, lstrip_blocks, no trailing newline; '-' and '+' override.
// Source: Jinja2 documentation, "Whitespace Control", and its lexer's observable behaviour.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace baton::jinja {

struct Token {
  enum class Kind {
    kText,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  // literal strings are unescaped
  int line = 1;
};

// Errors are "line N: ...".
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace baton::jinja
