// The tree of a parsed template. One node type for expressions and one for statements: which
// fields a kind uses stands beside it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace baton::jinja {

struct Expression;
struct Filter;
struct Test;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // text, slot
    kList,         // children
    kTuple,        // children
    kDict,         // children: key, value, key, value ...
    kAttribute,    // children[0] . text
    kItem,         // children[0] [ children[1] ]
    kSlice,        // children[0] [ children[1] : [2] : [3] ], each may be null
    kCall,         // children[0] ( arguments )
    kFilter,       // children[0] | text ( arguments )
    kTest,         // children[0] is text ( arguments )
    kNot,          // children[0]
    kNegate,       // children[0]
    kPlus,         // children[0]
    kBinary,       // children[0] text children[1]: + - * / // % **
    kAnd,          // children[0], children[1]
    kOr,           // children[0], children[1]
    kConcat,       // children joined as text: ~
    kCompare,      // children[0] operators[0] children[1] operators[1] ...
    kConditional,  // children[1] if children[0] else children[2], which may be null
  };

  Kind kind = Kind::kConstant;
  int line = 1;
  std::string text;
  int slot = -1;  // the interned number of a name
  Value constant;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
  std::vector<ExpressionPtr> children;
  std::vector<std::string> operators;
  std::vector<ExpressionPtr> arguments;
  std::vector<std::pair<std::string, ExpressionPtr>> named_arguments;
};

struct Statement;
using Statements = std::vector<Statement>;

// What a value is assigned to: a name, an attribute of a namespace, or several of them.
struct Target {
  struct Place {
    int slot;
    std::string attribute;  // empty for the name itself
  };
  std::vector<Place> places;
  bool is_tuple = false;
};

// A macro's or call block's parameters; the last ones have defaults.
struct Signature {
  std::string name;
  std::vector<std::string> names;
  std::vector<int> slots;
  std::vector<ExpressionPtr> defaults;  // of the last defaults.size() parameters
};

struct Statement {
  enum class Kind {
    kText,      // text
    kOutput,    // expression
    kIf,        // expression, body, otherwise
    kFor,       // target in expression [if condition], body, otherwise
    kSet,       // target = expression
    kSetBlock,  // target = body, passed through expression (filters of an empty name) if any
    kMacro,     // signature, body
    kCall,      // expression (a call), signature, body
    kFilter,    // expression, body
    kScope,     // body: {% generation %}, {% with %} (targets and values in assignments)
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kText;
  int line = 1;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  std::shared_ptr<Signature> signature;
  std::shared_ptr<Statements> body;  // shared with the macros that it defines
  Statements otherwise;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
};

struct Program {
  Statements statements;
  std::vector<std::string> names;  // by slot
};

// The input of a filter that is applied to a block: {% filter upper %}, {% set x | upper %}.
inline constexpr const char* kBlockInput = " block";

}  // namespace baton::jinja
