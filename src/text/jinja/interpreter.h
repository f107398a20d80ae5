// Runs a parsed template once. Errors are sticky: the first is kept with its line, everything
// after it is skipped. Bounded in steps, depth and output, since a template may be hostile.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace baton::jinja {

class Interpreter {
 public:
  static constexpr uint64_t kBytesPerStep = 64;
  static constexpr size_t kMaxTextBytes = size_t{1} << 28U;

  // All must outlive this. `now` is what strftime_now prints.
  Interpreter(const Program& program, const Dict& variables, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Once. Errors are "line N: ...".
  Result<MarkedText> run();

  // For filters, methods and functions.
  Value fail(const std::string& message);
  bool failed() const { return error_.has_value(); }
  // Counts work that one step does not cover: items made, bytes copied / kBytesPerStep. False,
  // after an error, once the template has used up its share.
  bool spend(uint64_t steps);
  Value call(const Value& callee, const Arguments& arguments);
  std::time_t now() const { return now_; }
  Value make_namespace(Dict attributes);
  // Values that can come to hold each other, and that are freed with the run.
  void keep(std::shared_ptr<Value> value) { kept_values_.push_back(std::move(value)); }

 private:
  struct Frame;
  using FramePtr = std::shared_ptr<Frame>;
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Statements& statements);
  Flow execute(const Statement& statement);
  Flow execute_for(const Statement& statement);
  Flow execute_scope(const Statement& statement);
  void execute_set(const Statement& statement);
  void execute_call(const Statement& statement);
  void assign(const Target& target, Value value);
  void assign(const Target::Place& place, Value value);
  MarkedText capture(const Statements& statements);
  Value with_block_input(const Expression& filters, MarkedText input);

  Value evaluate(const Expression& node);
  Value evaluate_kind(const Expression& node);
  Value evaluate_or_undefined(const ExpressionPtr& node);
  Value evaluate_name(const Expression& node);
  Value evaluate_list(const Expression& node);
  Value evaluate_dict(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_call(const Expression& node);
  Value evaluate_applied(const Expression& node);
  Value evaluate_concat(const Expression& node);
  Value evaluate_conditional(const Expression& node);
  Value evaluate_comparison(const Expression& node);
  Value evaluate_unary(const Expression& node);
  Arguments evaluate_arguments(const Expression& node);

  Value make_macro(const std::shared_ptr<Signature>& signature,
                   const std::shared_ptr<Statements>& body);
  Value call_macro(const Signature& signature,
                   const Statements& body,
                   Frame* definition,
                   const Arguments& arguments);
  void bind(const Signature& signature, const Arguments& arguments);

  // Runs `work` in a frame below `parent`.
  template <typename Work>
  auto in_frame(const FramePtr& parent, const Work& work);
  Value* find(int slot);
  void set(int slot, Value value);
  // False if the template never mentions the name.
  bool set_by_name(std::string_view name, Value value);

  const Program& program_;
  std::time_t now_;
  FramePtr frame_;
  std::vector<FramePtr> kept_frames_;  // those that macros were defined in
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Value>> kept_values_;
  MarkedText out_;
  std::optional<Error> error_;
  int line_ = 1;
  int depth_ = 0;
  size_t loop_depth_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace baton::jinja
