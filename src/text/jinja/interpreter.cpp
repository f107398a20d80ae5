#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_format.h"

namespace baton::jinja {
namespace {

// A conversation of thousands of messages takes about a hundred steps for each.
constexpr uint64_t kMaxSteps = 20'000'000;
constexpr int kMaxDepth = 200;
// Of values. A request's JSON nests up to 200 deep.
constexpr int kMaxNesting = 500;

}  // namespace

struct Interpreter::Frame : std::enable_shared_from_this<Frame> {
  explicit Frame(FramePtr outer) : parent(std::move(outer)) {}
  FramePtr parent;
  std::vector<std::pair<int, Value>> variables;
};

Interpreter::Interpreter(const Program& program, const Dict& variables, std::time_t now)
    : program_(program), now_(now), frame_(std::make_shared<Frame>(nullptr)) {
  for (size_t slot = 0; slot < program.names.size(); ++slot) {
    if (const Value* value = variables.find(program.names[slot])) {
      set(static_cast<int>(slot), *value);
    } else if (const std::optional<Value> function = find_function(program.names[slot])) {
      set(static_cast<int>(slot), *function);
    }
  }
  // What the template sets is a frame of its own.
  frame_ = std::make_shared<Frame>(frame_);
}

// Macros, namespaces and loops can hold each other; emptying them breaks the circles.
Interpreter::~Interpreter() {
  for (const FramePtr& frame : kept_frames_) frame->variables.clear();
  for (const auto& names : namespaces_) names->attributes.items.clear();
  for (const auto& value : kept_values_) *value = Value();
}

Result<MarkedText> Interpreter::run() {
  execute(program_.statements);
  if (error_) return *error_;
  return std::move(out_);
}

Value Interpreter::fail(const std::string& message) {
  if (!error_) error_ = invalid_argument("line " + std::to_string(line_) + ": " + message);
  return {};
}

Value Interpreter::make_namespace(Dict attributes) {
  namespaces_.push_back(std::make_shared<Namespace>(Namespace{std::move(attributes)}));
  return Value(namespaces_.back());
}

bool Interpreter::spend(uint64_t steps) {
  steps_ += steps;
  if (steps_ > kMaxSteps) fail("the template runs for too long");
  if (out_.size() > kMaxTextBytes) fail("the template writes too much");
  return !failed();
}

Value* Interpreter::find(int slot) {
  for (Frame* frame = frame_.get(); frame != nullptr; frame = frame->parent.get()) {
    for (auto& [name, value] : frame->variables) {
      if (name == slot) return &value;
    }
  }
  return nullptr;
}

void Interpreter::set(int slot, Value value) {
  for (auto& [name, old] : frame_->variables) {
    if (name == slot) {
      old = std::move(value);
      return;
    }
  }
  frame_->variables.emplace_back(slot, std::move(value));
}

template <typename Work>
auto Interpreter::in_frame(const FramePtr& parent, const Work& work) {
  const FramePtr outer = std::exchange(frame_, std::make_shared<Frame>(parent));
  auto result = work();
  frame_ = outer;
  return result;
}

Interpreter::Flow Interpreter::execute(const Statements& statements) {
  for (const Statement& statement : statements) {
    const Flow flow = execute(statement);
    if (failed()) return Flow::kBreak;
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  using Kind = Statement::Kind;
  line_ = statement.line;
  if (!spend(1)) return Flow::kBreak;
  switch (statement.kind) {
    case Kind::kText:
      out_.append(statement.text);
      break;
    case Kind::kOutput: {
      const Value value = evaluate(*statement.expression);
      if (value.text() != nullptr) {
        out_.append(*value.text());
      } else {
        out_.append(str_of(value));
      }
      break;
    }
    case Kind::kIf: {
      const bool holds = evaluate(*statement.expression).truth();
      return execute(holds ? *statement.body : statement.otherwise);
    }
    case Kind::kFor:
      return execute_for(statement);
    case Kind::kSet:
    case Kind::kSetBlock:
      execute_set(statement);
      break;
    case Kind::kMacro:
      set(statement.target.places[0].slot, make_macro(statement.signature, statement.body));
      break;
    case Kind::kCall:
      execute_call(statement);
      break;
    case Kind::kFilter:
      out_.append(str_of(with_block_input(*statement.expression, capture(*statement.body))));
      break;
    case Kind::kScope:
      return execute_scope(statement);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

// Every round has a frame of its own: what it sets is gone in the next.
Interpreter::Flow Interpreter::execute_for(const Statement& statement) {
  const Value iterable = evaluate(*statement.expression);
  List wanted_items;
  for (Value& candidate : iterate(*this, iterable)) {
    if (!spend(1)) return Flow::kBreak;
    const bool wanted = !statement.condition || in_frame(frame_, [&] {
      assign(statement.target, candidate);
      return evaluate(*statement.condition).truth();
    });
    if (wanted) wanted_items.items.push_back(std::move(candidate));
  }
  const std::shared_ptr<const List> items = Value(std::move(wanted_items)).shared_list();
  if (items->items.empty()) return execute(statement.otherwise);
  const int loop_slot = static_cast<int>(program_.names.size());
  ++loop_depth_;
  Loop loop{items, 0, loop_depth_, std::make_shared<Value>()};
  for (; loop.index < items->items.size() && !failed(); ++loop.index) {
    const Flow flow = in_frame(frame_, [&] {
      set(loop_slot, Value(std::make_shared<const Loop>(loop)));
      assign(statement.target, items->items[loop.index]);
      return execute(*statement.body);
    });
    if (flow == Flow::kBreak) break;
  }
  --loop_depth_;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_scope(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, value] : statement.assignments) values.push_back(evaluate(*value));
  return in_frame(frame_, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      assign(statement.assignments[i].first, std::move(values[i]));
    }
    return execute(*statement.body);
  });
}

void Interpreter::execute_set(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSet) {
    return assign(statement.target, evaluate(*statement.expression));
  }
  MarkedText text = capture(*statement.body);
  assign(statement.target,
         statement.expression ? with_block_input(*statement.expression, std::move(text))
                              : Value(std::move(text)));
}

void Interpreter::execute_call(const Statement& statement) {
  const Expression& call_node = *statement.expression;
  const Value callee = evaluate(*call_node.children[0]);
  Arguments arguments = evaluate_arguments(call_node);
  arguments.named.emplace_back("caller", make_macro(statement.signature, statement.body));
  out_.append(str_of(call(callee, arguments)));
}

void Interpreter::assign(const Target& target, Value value) {
  if (!target.is_tuple) return assign(target.places[0], std::move(value));
  const std::vector<Value> parts = iterate(*this, value);
  if (parts.size() != target.places.size()) {
    fail("expected " + std::to_string(target.places.size()) + " values to unpack, got " +
         std::to_string(parts.size()));
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i) assign(target.places[i], parts[i]);
}

void Interpreter::assign(const Target::Place& place, Value value) {
  if (place.attribute.empty()) return set(place.slot, std::move(value));
  const Value* object = find(place.slot);
  if (object != nullptr && object->name_space() != nullptr) {
    object->name_space()->attributes.set(Value(place.attribute), std::move(value));
  } else {
    fail("cannot assign attribute '" + place.attribute + "' on non-namespace object");
  }
}

MarkedText Interpreter::capture(const Statements& statements) {
  MarkedText outer = std::exchange(out_, MarkedText());
  in_frame(frame_, [&] { return execute(statements); });
  return std::exchange(out_, std::move(outer));
}

// The innermost filter reads its input from a variable that no template can name.
Value Interpreter::with_block_input(const Expression& filters, MarkedText input) {
  const Expression* innermost = &filters;
  while (innermost->kind == Expression::Kind::kFilter) innermost = innermost->children[0].get();
  return in_frame(frame_, [&] {
    set(innermost->slot, Value(std::move(input)));
    return evaluate(filters);
  });
}

Value Interpreter::make_macro(const std::shared_ptr<Signature>& signature,
                              const std::shared_ptr<Statements>& body) {
  kept_frames_.push_back(frame_);
  Frame* definition = frame_.get();
  return Value(Function{signature->name,
                        [signature, body, definition](Interpreter& run, const Arguments& given) {
                          return run.call_macro(*signature, *body, definition, given);
                        }});
}

// A macro sees where it was defined, not where it is called.
Value Interpreter::call_macro(const Signature& signature,
                              const Statements& body,
                              Frame* definition,
                              const Arguments& arguments) {
  if (depth_ >= kMaxDepth) return fail("macros nested too deeply");
  ++depth_;
  MarkedText outer = std::exchange(out_, MarkedText());
  in_frame(definition->shared_from_this(), [&] {
    bind(signature, arguments);
    return execute(body);
  });
  --depth_;
  return Value(std::exchange(out_, std::move(outer)));
}

// Arguments beyond the parameters are allowed where the template reads varargs or kwargs.
void Interpreter::bind(const Signature& signature, const Arguments& arguments) {
  const size_t count = signature.slots.size();
  List extra{{}, true, false};
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    extra.items.push_back(arguments.positional[i]);
  }
  if (!extra.items.empty() && !set_by_name("varargs", Value(std::move(extra)))) {
    fail("macro '" + signature.name + "' takes not more than " + std::to_string(count) +
         " arguments, got " + std::to_string(arguments.positional.size()));
    return;
  }
  Dict extra_named;
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") {
      set_by_name(name, value);
    } else if (std::find(signature.names.begin(), signature.names.end(), name) ==
               signature.names.end()) {
      extra_named.set(Value(name), value);
      if (set_by_name("kwargs", Value(extra_named))) continue;
      fail("macro '" + signature.name + "' takes no keyword argument '" + name + "'");
      return;
    }
  }
  const size_t first_default = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    if (const Value* given = arguments.find(i, signature.names[i])) {
      set(signature.slots[i], *given);
    } else if (i >= first_default) {
      set(signature.slots[i], evaluate(*signature.defaults[i - first_default]));
    } else {
      set(signature.slots[i],
          Value::undefined("parameter '" + signature.names[i] + "' was not provided"));
    }
  }
}

bool Interpreter::set_by_name(std::string_view name, Value value) {
  const auto found = std::find(program_.names.begin(), program_.names.end(), name);
  if (found == program_.names.end()) return false;
  set(static_cast<int>(found - program_.names.begin()), std::move(value));
  return true;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.function() != nullptr) return callee.function()->call(*this, arguments);
  if (callee.is_undefined()) return fail(callee.undefined()->reason);
  return fail(std::string("'") + callee.type_name() + "' object is not callable");
}

Value Interpreter::evaluate_or_undefined(const ExpressionPtr& node) {
  return node ? evaluate(*node) : Value();
}

Value Interpreter::evaluate(const Expression& node) {
  if (!spend(1)) return {};
  Value value = evaluate_kind(node);
  if (value.nesting() <= kMaxNesting) return value;
  return fail("values nested too deeply: expected at most " + std::to_string(kMaxNesting) +
              " levels");
}

Value Interpreter::evaluate_kind(const Expression& node) {
  using Kind = Expression::Kind;
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return evaluate_name(node);
    case Kind::kList:
    case Kind::kTuple:
      return evaluate_list(node);
    case Kind::kDict:
      return evaluate_dict(node);
    case Kind::kAttribute:
      return attribute(*this, evaluate(*node.children[0]), node.text);
    case Kind::kItem: {
      const Value object = evaluate(*node.children[0]);
      return item(*this, object, evaluate(*node.children[1]));
    }
    case Kind::kSlice:
      return evaluate_slice(node);
    case Kind::kCall:
      return evaluate_call(node);
    case Kind::kFilter:
    case Kind::kTest:
      return evaluate_applied(node);
    case Kind::kNot:
    case Kind::kNegate:
    case Kind::kPlus:
      return evaluate_unary(node);
    case Kind::kBinary: {
      const Value a = evaluate(*node.children[0]);
      const Value b = evaluate(*node.children[1]);
      return failed() ? Value() : binary_operation(*this, node.text, a, b);
    }
    case Kind::kAnd: {
      Value a = evaluate(*node.children[0]);
      return a.truth() ? evaluate(*node.children[1]) : a;
    }
    case Kind::kOr: {
      Value a = evaluate(*node.children[0]);
      return a.truth() ? a : evaluate(*node.children[1]);
    }
    case Kind::kConcat:
      return evaluate_concat(node);
    case Kind::kCompare:
      return evaluate_comparison(node);
    case Kind::kConditional:
      return evaluate_conditional(node);
  }
  return {};
}

Value Interpreter::evaluate_list(const Expression& node) {
  List list{{}, node.kind == Expression::Kind::kTuple, false};
  for (const ExpressionPtr& child : node.children) list.items.push_back(evaluate(*child));
  return Value(std::move(list));
}

Value Interpreter::evaluate_slice(const Expression& node) {
  const Value object = evaluate(*node.children[0]);
  const Value start = evaluate_or_undefined(node.children[1]);
  const Value stop = evaluate_or_undefined(node.children[2]);
  return slice(*this, object, start, stop, evaluate_or_undefined(node.children[3]));
}

// A filter, or a test.
Value Interpreter::evaluate_applied(const Expression& node) {
  const Value input = evaluate(*node.children[0]);
  const Arguments arguments = evaluate_arguments(node);
  if (failed()) return {};
  if (node.kind == Expression::Kind::kTest) {
    return Value(node.test->holds(*this, input, arguments));
  }
  return node.filter->apply(*this, input, arguments);
}

Value Interpreter::evaluate_concat(const Expression& node) {
  MarkedText text;
  for (const ExpressionPtr& child : node.children) {
    text.append(str_of(evaluate(*child)));
    if (text.size() > kMaxTextBytes) return fail("text too large");
  }
  return spend(text.size() / kBytesPerStep) ? Value(std::move(text)) : Value();
}

Value Interpreter::evaluate_conditional(const Expression& node) {
  const bool holds = evaluate(*node.children[0]).truth();
  if (!holds && !node.children[2]) {
    return Value::undefined("the inline if-expression evaluated to false and has no else");
  }
  return evaluate(*node.children[holds ? 1 : 2]);
}

Value Interpreter::evaluate_name(const Expression& node) {
  if (node.text == "loop") {
    const Value* loop = find(static_cast<int>(program_.names.size()));
    if (loop != nullptr) return *loop;
  }
  if (const Value* value = find(node.slot)) return *value;
  return Value::undefined("'" + node.text + "' is undefined");
}

Value Interpreter::evaluate_dict(const Expression& node) {
  Dict dict;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    Value key = evaluate(*node.children[i]);
    dict.set(std::move(key), evaluate(*node.children[i + 1]));
  }
  return Value(std::move(dict));
}

Value Interpreter::evaluate_unary(const Expression& node) {
  const Value value = evaluate(*node.children[0]);
  if (node.kind == Expression::Kind::kNot) return Value(!value.truth());
  if (!value.number()) {
    if (value.is_undefined()) return fail(value.undefined()->reason);
    return fail(std::string("bad operand type for unary operator: '") + value.type_name() + "'");
  }
  const bool negate = node.kind == Expression::Kind::kNegate;
  if (value.integral()) return Value(negate ? -*value.integral() : *value.integral());
  return Value(negate ? -*value.number() : *value.number());
}

// a < b < c is a < b and b < c.
Value Interpreter::evaluate_comparison(const Expression& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.operators.size() && !failed(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    if (failed() || !comparison(*this, node.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Arguments Interpreter::evaluate_arguments(const Expression& node) {
  Arguments arguments;
  for (const ExpressionPtr& argument : node.arguments) {
    arguments.positional.push_back(evaluate(*argument));
  }
  for (const auto& [name, value] : node.named_arguments) {
    arguments.named.emplace_back(name, evaluate(*value));
  }
  return arguments;
}

// object.method(...) does not build the bound method first.
Value Interpreter::evaluate_call(const Expression& node) {
  const Expression& callee = *node.children[0];
  if (callee.kind == Expression::Kind::kAttribute) {
    const Value object = evaluate(*callee.children[0]);
    const Method* method = find_method(object, callee.text);
    const Value function = method == nullptr ? attribute(*this, object, callee.text) : Value();
    const Arguments arguments = evaluate_arguments(node);
    if (failed()) return {};
    return method != nullptr ? method->call(*this, object, arguments) : call(function, arguments);
  }
  const Value function = evaluate(callee);
  const Arguments arguments = evaluate_arguments(node);
  return failed() ? Value() : call(function, arguments);
}

}  // namespace baton::jinja
