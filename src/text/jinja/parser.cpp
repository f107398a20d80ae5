#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"

namespace baton::jinja {
namespace {

using Kind = Statement::Kind;
using Ends = std::initializer_list<std::string_view>;

constexpr int kMaxBlocks = 100;  // nested

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : parser_(std::move(tokens)) {}

  Result<std::unique_ptr<Program>> run() {
    auto program = std::make_unique<Program>();
    program->statements = statements({});
    if (!parser_.failed() && !parser_.is(Token::Kind::kEnd)) {
      parser_.fail("unexpected '" + parser_.token().text + "'");
    }
    if (parser_.failed()) return parser_.error();
    program->names = parser_.take_names();
    return program;
  }

 private:
  // Counts nesting for as long as it lives; too deep is an error, not a full stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxBlocks) parser_.parser_.fail("blocks nested too deeply");
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  Statement make(Kind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = parser_.token().line;
    return statement;
  }

  // Up to a block that begins with one of `ends`; its name is the next token then.
  Statements statements(Ends ends) {
    const Nesting nesting(*this);
    Statements list;
    while (!parser_.failed() && !parser_.is(Token::Kind::kEnd)) {
      if (parser_.is(Token::Kind::kText)) {
        list.push_back(make(Kind::kText));
        list.back().text = parser_.take().text;
      } else if (parser_.is(Token::Kind::kVariableBegin)) {
        parser_.take();
        list.push_back(make(Kind::kOutput));
        list.back().expression = parser_.expression_or_tuple();
        parser_.expect(Token::Kind::kVariableEnd, "'}}'");
      } else {
        parser_.expect(Token::Kind::kBlockBegin, "a block");
        if (is_one_of(ends)) return list;
        list.push_back(block());
      }
    }
    if (!parser_.failed() && ends.size() > 0) {
      parser_.fail("unexpected end of template, expected '" + std::string(*ends.begin()) + "'");
    }
    return list;
  }

  bool is_one_of(Ends names) const {
    return std::any_of(
        names.begin(), names.end(), [&](std::string_view name) { return parser_.is_name(name); });
  }

  std::shared_ptr<Statements> body(Ends ends) {
    return std::make_shared<Statements>(statements(ends));
  }

  void end_of_block() { parser_.expect(Token::Kind::kBlockEnd, "'%}'"); }

  std::shared_ptr<Statements> body_to_end(std::string_view end) {
    end_of_block();
    auto list = body({end});
    parser_.take();
    return list;
  }

  Statement block() {
    const std::string name = parser_.expect_name("the name of a block");
    Statement statement = simple_block(name);
    if (!parser_.failed()) end_of_block();
    return statement;
  }

  // Everything between the block's name and its last '%}'.
  Statement simple_block(const std::string& name) {
    if (name == "if") return if_block();
    if (name == "for") return for_block();
    if (name == "set") return set_block();
    if (name == "macro") return macro_block();
    if (name == "call") return call_block();
    if (name == "filter") return filter_block();
    if (name == "with") return with_block();
    if (name == "generation") {
      Statement statement = make(Kind::kScope);
      statement.body = body_to_end("endgeneration");
      return statement;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) parser_.fail("'" + name + "' outside of a loop");
      return make(name == "break" ? Kind::kBreak : Kind::kContinue);
    }
    if (!parser_.failed()) parser_.fail("block '" + name + "' is not supported here");
    return make(Kind::kText);
  }

  Statement if_block() {
    Statement statement = make(Kind::kIf);
    statement.expression = parser_.expression_or_tuple();
    end_of_block();
    statement.body = body({"elif", "else", "endif"});
    if (parser_.skip_name("elif")) {
      const Nesting nesting(*this);
      statement.otherwise.push_back(if_block());
    } else if (parser_.skip_name("else")) {
      end_of_block();
      statement.otherwise = statements({"endif"});
      parser_.take();
    } else {
      parser_.take();
    }
    return statement;
  }

  Statement for_block() {
    Statement statement = make(Kind::kFor);
    statement.target = parser_.target();
    if (!parser_.skip_name("in")) parser_.fail("expected 'in', got '" + parser_.token().text + "'");
    statement.expression = parser_.expression_without_if();
    if (parser_.skip_name("if")) statement.condition = parser_.expression();
    if (parser_.is_name("recursive")) parser_.fail("recursive loops are not supported");
    end_of_block();
    ++loops_;
    statement.body = body({"else", "endfor"});
    --loops_;
    if (parser_.skip_name("else")) {
      end_of_block();
      statement.otherwise = statements({"endfor"});
    }
    parser_.take();
    return statement;
  }

  Statement set_block() {
    Statement statement = make(Kind::kSet);
    statement.target = parser_.target();
    if (parser_.skip_operator("=")) {
      statement.expression = parser_.expression_or_tuple();
      return statement;
    }
    statement.kind = Kind::kSetBlock;
    if (parser_.skip_operator("|")) statement.expression = parser_.filters_of_block_input();
    statement.body = body_to_end("endset");
    return statement;
  }

  // A loop around a macro is not a loop around what the macro does.
  std::shared_ptr<Statements> macro_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    auto list = body_to_end(end);
    loops_ = loops;
    return list;
  }

  Statement macro_block() {
    Statement statement = make(Kind::kMacro);
    const std::string name = parser_.expect_name("the name of a macro");
    statement.target.places.push_back({parser_.slot(name), {}});
    statement.signature = parser_.signature(name);
    statement.body = macro_body("endmacro");
    return statement;
  }

  Statement call_block() {
    Statement statement = make(Kind::kCall);
    statement.signature =
        parser_.is_operator("(") ? parser_.signature("caller") : std::make_shared<Signature>();
    statement.signature->name = "caller";
    statement.expression = parser_.expression();
    if (!parser_.failed() && statement.expression->kind != Expression::Kind::kCall) {
      parser_.fail("expected a call");
    }
    statement.body = macro_body("endcall");
    return statement;
  }

  Statement filter_block() {
    Statement statement = make(Kind::kFilter);
    statement.expression = parser_.filters_of_block_input();
    statement.body = body_to_end("endfilter");
    return statement;
  }

  Statement with_block() {
    Statement statement = make(Kind::kScope);
    while (!parser_.failed() && !parser_.is(Token::Kind::kBlockEnd)) {
      Target target;
      target.places.push_back(parser_.place());
      parser_.expect_operator("=");
      statement.assignments.emplace_back(std::move(target), parser_.expression());
      if (!parser_.is(Token::Kind::kBlockEnd)) parser_.expect_operator(",");
    }
    statement.body = body_to_end("endwith");
    return statement;
  }

  ExpressionParser parser_;
  int depth_ = 0;
  int loops_ = 0;  // around the current statement
};

}  // namespace

Result<std::unique_ptr<Program>> parse(std::string_view source) {
  Result<std::vector<Token>> tokens = tokenize(source);
  if (!tokens) return tokens.error();
  return Parser(std::move(*tokens)).run();
}

}  // namespace baton::jinja
