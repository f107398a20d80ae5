// Parses expressions, with Jinja2's precedence. Errors are sticky: the first one is kept, and
// what is parsed after it is thrown away.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace baton::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExpressionPtr expression();              // with if-else
  ExpressionPtr expression_without_if();   // as after `in` of a for
  ExpressionPtr expression_or_tuple();     // a, b, c without brackets
  ExpressionPtr filters_of_block_input();  // name(...) | name(...) of a filter block
  Target target();
  Target::Place place();
  std::shared_ptr<Signature> signature(const std::string& name);

  const Token& token() const { return tokens_[position_]; }
  const Token& next_token() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool is(Token::Kind kind) const { return token().kind == kind; }
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect(Token::Kind kind, const char* what);
  void expect_operator(std::string_view text);
  std::string expect_name(const char* what);

  int slot(const std::string& name);
  std::vector<std::string> take_names() { return std::move(names_); }

  void fail(const std::string& message);
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  // Counts nesting for as long as it lives; too deep is an error, not a full stack.
  class Nesting;
  void link();

  ExpressionPtr or_expression();
  ExpressionPtr and_expression();
  ExpressionPtr not_expression();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr named_constant_or_name();
  ExpressionPtr brackets();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr attribute(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  void arguments(Expression& node);
  ExpressionPtr make(Expression::Kind kind) const;
  ExpressionPtr binary(Expression::Kind kind, std::string op, ExpressionPtr a, ExpressionPtr b);
  ExpressionPtr constant(Value value) const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  std::optional<Error> error_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> slots_;
  int depth_ = 0;
  int links_ = 0;
};

}  // namespace baton::jinja
