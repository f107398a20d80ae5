#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "text/jinja/filters.h"

namespace baton::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int kMaxDepth = 100;   // of nested brackets and operators; templates use about ten
constexpr int kMaxLinks = 1000;  // of the operators, filters and calls of one expression
constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<=", ">=", "<", ">"};

bool starts_value(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kName:
      return token.text != "else" && token.text != "or" && token.text != "and";
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return true;
    case Token::Kind::kOperator:
      return token.text == "(" || token.text == "[" || token.text == "{";
    default:
      return false;
  }
}

}  // namespace

class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxDepth) parser_.fail("expression nested too deeply");
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

void ExpressionParser::fail(const std::string& message) {
  if (!error_) error_ = invalid_argument("line " + std::to_string(token().line) + ": " + message);
  position_ = tokens_.size() - 1;  // the end: every loop over tokens stops
}

Token ExpressionParser::take() {
  Token taken = token();
  if (position_ + 1 < tokens_.size()) ++position_;
  return taken;
}

bool ExpressionParser::is_operator(std::string_view text) const {
  return is(Token::Kind::kOperator) && token().text == text;
}
bool ExpressionParser::is_name(std::string_view text) const {
  return is(Token::Kind::kName) && token().text == text;
}
bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}
bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void ExpressionParser::expect(Token::Kind kind, const char* what) {
  if (!is(kind)) return fail(std::string("expected ") + what + ", got '" + token().text + "'");
  take();
}
void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) {
    fail("expected '" + std::string(text) + "', got '" + token().text + "'");
  }
}
std::string ExpressionParser::expect_name(const char* what) {
  if (is(Token::Kind::kName)) return take().text;
  fail(std::string("expected ") + what + ", got '" + token().text + "'");
  return {};
}

int ExpressionParser::slot(const std::string& name) {
  const auto [entry, added] = slots_.emplace(name, static_cast<int>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

// a + b + c ... and a.b.c ... make a tree as deep as they are long.
void ExpressionParser::link() {
  if (++links_ > kMaxLinks) fail("expression too long");
}

ExpressionPtr ExpressionParser::make(Kind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = token().line;
  return node;
}

ExpressionPtr ExpressionParser::binary(Kind kind,
                                       std::string op,
                                       ExpressionPtr a,
                                       ExpressionPtr b) {
  link();
  ExpressionPtr node = make(kind);
  node->text = std::move(op);
  node->children.push_back(std::move(a));
  node->children.push_back(std::move(b));
  return node;
}

ExpressionPtr ExpressionParser::constant(Value value) const {
  ExpressionPtr node = make(Kind::kConstant);
  node->constant = std::move(value);
  return node;
}

ExpressionPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  if (depth_ == 1) links_ = 0;
  if (failed()) return constant(Value());
  ExpressionPtr value = or_expression();
  while (is_name("if") && !failed()) {
    link();
    ExpressionPtr node = make(Kind::kConditional);
    take();
    node->children.push_back(or_expression());
    node->children.push_back(std::move(value));
    node->children.push_back(skip_name("else") ? expression() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::expression_without_if() {
  if (depth_ == 0) links_ = 0;
  ExpressionPtr first = or_expression();
  if (!is_operator(",")) return first;
  ExpressionPtr tuple = make(Kind::kTuple);
  tuple->children.push_back(std::move(first));
  while (skip_operator(",")) {
    if (starts_value(token())) tuple->children.push_back(or_expression());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::expression_or_tuple() {
  ExpressionPtr first = expression();
  if (!is_operator(",")) return first;
  ExpressionPtr tuple = make(Kind::kTuple);
  tuple->children.push_back(std::move(first));
  while (skip_operator(",")) {
    if (is(Token::Kind::kVariableEnd) || is(Token::Kind::kBlockEnd) || is_operator(")")) break;
    tuple->children.push_back(expression());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::or_expression() {
  ExpressionPtr left = and_expression();
  while (skip_name("or")) left = binary(Kind::kOr, "or", std::move(left), and_expression());
  return left;
}

ExpressionPtr ExpressionParser::and_expression() {
  ExpressionPtr left = not_expression();
  while (skip_name("and")) left = binary(Kind::kAnd, "and", std::move(left), not_expression());
  return left;
}

ExpressionPtr ExpressionParser::not_expression() {
  if (!is_name("not")) return comparison();
  const Nesting nesting(*this);
  ExpressionPtr node = make(Kind::kNot);
  take();
  node->children.push_back(failed() ? constant(Value()) : not_expression());
  return node;
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node;
  while (!failed()) {
    std::string op;
    if (is(Token::Kind::kOperator) &&
        std::find(kComparisons.begin(), kComparisons.end(), token().text) != kComparisons.end()) {
      op = take().text;
    } else if (skip_name("in")) {
      op = "in";
    } else if (is_name("not") && next_token().kind == Token::Kind::kName &&
               next_token().text == "in") {
      take();
      take();
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(Kind::kCompare);
      node->children.push_back(std::move(first));
    }
    node->operators.push_back(op);
    node->children.push_back(sum());
  }
  return node ? std::move(node) : std::move(first);
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    std::string op = take().text;
    left = binary(Kind::kBinary, std::move(op), std::move(left), concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr first = product();
  if (!is_operator("~")) return first;
  ExpressionPtr node = make(Kind::kConcat);
  node->children.push_back(std::move(first));
  while (skip_operator("~")) node->children.push_back(product());
  return node;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    std::string op = take().text;
    left = binary(Kind::kBinary, std::move(op), std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(/*with_filters=*/true);
  while (skip_operator("**")) {
    left = binary(Kind::kBinary, "**", std::move(left), unary(/*with_filters=*/true));
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  if (failed()) return constant(Value());
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    node = make(is_operator("-") ? Kind::kNegate : Kind::kPlus);
    take();
    node->children.push_back(unary(/*with_filters=*/false));
  } else {
    node = postfix(primary());
  }
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary() {
  switch (token().kind) {
    case Token::Kind::kName:
      return named_constant_or_name();
    case Token::Kind::kString: {
      std::string text;
      while (is(Token::Kind::kString)) text += take().text;
      return constant(Value(std::move(text)));
    }
    case Token::Kind::kInteger: {
      Integer value = 0;
      const std::string digits = take().text;
      if (digits.size() > 30) fail("integer too large");
      for (const char c : digits) value = value * 10 + (c - '0');
      return constant(Value(value));
    }
    case Token::Kind::kFloat:
      return constant(Value(std::strtod(take().text.c_str(), nullptr)));
    case Token::Kind::kOperator:
      return brackets();
    default:
      fail("expected an expression, got '" + token().text + "'");
      return constant(Value());
  }
}

ExpressionPtr ExpressionParser::named_constant_or_name() {
  ExpressionPtr node = make(Kind::kName);
  node->text = take().text;
  if (node->text == "true" || node->text == "True") return constant(Value(true));
  if (node->text == "false" || node->text == "False") return constant(Value(false));
  if (node->text == "none" || node->text == "None") return constant(Value(None{}));
  node->slot = slot(node->text);
  return node;
}

ExpressionPtr ExpressionParser::brackets() {
  if (skip_operator("(")) {
    if (is_operator(")")) {
      take();
      return make(Kind::kTuple);
    }
    ExpressionPtr inner = expression_or_tuple();
    expect_operator(")");
    return inner;
  }
  if (is_operator("{")) return dict();
  ExpressionPtr list = make(Kind::kList);
  expect_operator("[");
  while (!failed() && !is_operator("]")) {
    list->children.push_back(expression());
    if (!is_operator("]")) expect_operator(",");
  }
  expect_operator("]");
  return list;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr node = make(Kind::kDict);
  expect_operator("{");
  while (!failed() && !is_operator("}")) {
    node->children.push_back(expression());
    expect_operator(":");
    node->children.push_back(expression());
    if (!is_operator("}")) expect_operator(",");
  }
  expect_operator("}");
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  for (; !failed(); link()) {
    if (is_operator(".")) {
      node = attribute(std::move(node));
    } else if (is_operator("[")) {
      node = subscript(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  for (; !failed(); link()) {
    if (skip_operator("|")) {
      node = filter(std::move(node));
    } else if (skip_name("is")) {
      node = test(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr object) {
  take();
  ExpressionPtr node = make(is(Token::Kind::kInteger) ? Kind::kItem : Kind::kAttribute);
  node->children.push_back(std::move(object));
  if (node->kind == Kind::kItem) {
    node->children.push_back(primary());
  } else {
    node->text = expect_name("a name after '.'");
  }
  return node;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  ExpressionPtr node = make(Kind::kItem);
  take();
  node->children.push_back(std::move(object));
  std::vector<ExpressionPtr> parts;  // of a slice
  bool is_slice = false;
  ExpressionPtr part;
  while (!failed() && !is_operator("]")) {
    if (skip_operator(":")) {
      is_slice = true;
      parts.push_back(std::move(part));
    } else if (part) {
      break;
    } else {
      part = expression_or_tuple();
    }
  }
  expect_operator("]");
  if (!is_slice) {
    if (!part) fail("expected an index between [ and ]");
    node->children.push_back(std::move(part));
    return node;
  }
  parts.push_back(std::move(part));
  if (parts.size() > 3) fail("a slice has at most three parts");
  parts.resize(3);
  node->kind = Kind::kSlice;
  for (ExpressionPtr& p : parts) node->children.push_back(std::move(p));
  return node;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(Kind::kCall);
  node->children.push_back(std::move(callee));
  arguments(*node);
  return node;
}

void ExpressionParser::arguments(Expression& node) {
  expect_operator("(");
  while (!failed() && !is_operator(")")) {
    if (is_operator("*") || is_operator("**")) return fail("* and ** arguments are not supported");
    if (is(Token::Kind::kName) && next_token().kind == Token::Kind::kOperator &&
        next_token().text == "=") {
      std::string name = take().text;
      take();
      node.named_arguments.emplace_back(std::move(name), expression());
    } else {
      if (!node.named_arguments.empty()) return fail("positional argument after a named one");
      node.arguments.push_back(expression());
    }
    if (!is_operator(")")) expect_operator(",");
  }
  expect_operator(")");
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  ExpressionPtr node = make(Kind::kFilter);
  node->text = expect_name("the name of a filter");
  node->children.push_back(std::move(input));
  node->filter = find_filter(node->text);
  if (node->filter == nullptr && !failed()) fail("no filter named '" + node->text + "'");
  if (is_operator("(")) arguments(*node);
  for (const auto& [name, value] : node->named_arguments) {
    if (failed() || takes(*node->filter, name)) continue;
    fail("filter '" + node->text + "' has no parameter '" + name + "'");
  }
  return node;
}

ExpressionPtr ExpressionParser::filters_of_block_input() {
  ExpressionPtr input = make(Kind::kName);
  input->text = kBlockInput;
  input->slot = slot(kBlockInput);
  ExpressionPtr node = filter(std::move(input));
  for (links_ = 0; skip_operator("|"); link()) node = filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const bool negated = skip_name("not");
  ExpressionPtr node = make(Kind::kTest);
  if (is_name("none") || is_name("None")) {
    node->text = "none";
    take();
  } else {
    node->text = expect_name("the name of a test");
  }
  node->children.push_back(std::move(input));
  node->test = find_test(node->text);
  if (node->test == nullptr && !failed()) fail("no test named '" + node->text + "'");
  if (is_operator("(")) {
    arguments(*node);
  } else if (starts_value(token()) && !is_name("is") && !is_name("if")) {
    node->arguments.push_back(postfix(primary()));
  }
  if (!negated) return node;
  ExpressionPtr inverse = make(Kind::kNot);
  inverse->children.push_back(std::move(node));
  return inverse;
}

Target::Place ExpressionParser::place() {
  Target::Place place{slot(expect_name("a name to assign to")), {}};
  if (skip_operator(".")) place.attribute = expect_name("an attribute");
  return place;
}

Target ExpressionParser::target() {
  Target target;
  const bool bracket = skip_operator("(");
  target.places.push_back(place());
  while (skip_operator(",")) {
    target.is_tuple = true;
    if (!is(Token::Kind::kName) || is_name("in")) break;
    target.places.push_back(place());
  }
  if (bracket) expect_operator(")");
  return target;
}

std::shared_ptr<Signature> ExpressionParser::signature(const std::string& name) {
  auto signature = std::make_shared<Signature>();
  signature->name = name;
  expect_operator("(");
  while (!failed() && !is_operator(")")) {
    signature->names.push_back(expect_name("a parameter"));
    signature->slots.push_back(slot(signature->names.back()));
    if (skip_operator("=")) {
      signature->defaults.push_back(expression());
    } else if (!signature->defaults.empty()) {
      fail("a parameter without a default follows one with a default");
    }
    if (!is_operator(")")) expect_operator(",");
  }
  expect_operator(")");
  return signature;
}

}  // namespace baton::jinja
