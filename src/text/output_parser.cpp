#include "text/output_parser.h"

#include "text/tool_calls/argument_types.h"

namespace baton {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

}  // namespace

OutputParser::OutputParser(OutputParserOptions options) : options_(std::move(options)) {
  if (options_.reasoning && options_.begins_in_reasoning) state_ = State::kReasoning;
}

OutputDelta OutputParser::text(std::string_view piece) {
  if (options_.tags_are_tokens) {
    on_text(piece);
  } else {
    scanner_.push(
        piece, [this](std::string_view t) { on_text(t); }, [this](OutputTag t) { on_tag(t); });
  }
  return take();
}

OutputDelta OutputParser::tag(OutputTag tag) {
  on_tag(tag);
  return take();
}

OutputDelta OutputParser::finish() {
  scanner_.finish([this](std::string_view t) { on_text(t); });
  if (state_ == State::kName && blank(name_)) give_up_call();
  // A cut-off value that was held back for its type is sent as far as it came.
  if (state_ == State::kValue && !streams_value_) current_call().arguments += value_;
  return take();
}

void OutputParser::on_text(std::string_view piece) {
  switch (state_) {
    case State::kContent:
      add_content(piece);
      break;
    case State::kReasoning:
      delta_.reasoning += piece;
      break;
    case State::kName:
      name_ += piece;
      break;
    case State::kKey:
      key_ += piece;
      break;
    case State::kValue:
      add_value(piece);
      break;
    case State::kBetween:
    case State::kAfterKey:
      break;  // only whitespace belongs here; anything else has no place to go
  }
}

void OutputParser::on_tag(OutputTag tag) {
  if (state_ == State::kValue && tag != OutputTag::kValueClose) return literal(tag);
  const bool thinking = tag == OutputTag::kThinkOpen || tag == OutputTag::kThinkClose;
  if (state_ == State::kReasoning) {
    if (tag == OutputTag::kThinkClose) {
      state_ = State::kContent;
    } else if (!thinking) {
      literal(tag);  // a call quoted while thinking is not a call
    }
    return;
  }
  if (thinking) {
    if (!options_.reasoning) return literal(tag);
    if (tag == OutputTag::kThinkOpen && state_ == State::kContent) state_ = State::kReasoning;
    return;
  }
  if (!options_.tool_calls) return literal(tag);
  on_call_tag(tag);
}

void OutputParser::on_call_tag(OutputTag tag) {
  if (state_ == State::kName && blank(name_)) give_up_call();
  switch (tag) {
    case OutputTag::kCallOpen:
      open_call();
      break;
    case OutputTag::kCallClose:
      close_call();
      break;
    case OutputTag::kKeyOpen:
      if (state_ == State::kContent) return literal(tag);
      announce();
      key_.clear();
      state_ = State::kKey;
      break;
    case OutputTag::kKeyClose:
      if (state_ == State::kContent) return literal(tag);
      state_ = State::kAfterKey;
      break;
    case OutputTag::kValueOpen:
      if (state_ == State::kContent) return literal(tag);
      open_value();
      break;
    case OutputTag::kValueClose:
      if (state_ == State::kContent) return literal(tag);
      if (state_ == State::kValue) close_value();
      break;
    default:
      break;
  }
}

void OutputParser::add_content(std::string_view piece) {
  if (calls_ > 0 && blank(piece)) {
    pending_space_ += piece;
    return;
  }
  delta_.content += std::exchange(pending_space_, {});
  delta_.content += piece;
}

void OutputParser::open_call() {
  if (state_ != State::kContent) close_call();
  pending_space_.clear();
  name_.clear();
  arguments_ = 0;
  announced_ = false;
  ++calls_;
  state_ = State::kName;
}

// A call without a name is no call: what was written is content.
void OutputParser::give_up_call() {
  --calls_;
  state_ = State::kContent;
  literal(OutputTag::kCallOpen);
  add_content(name_);
}

void OutputParser::announce() {
  if (announced_) return;
  announced_ = true;
  name_ = trimmed(name_);
  ToolCallDelta& call = current_call();
  call.name = name_;
  call.arguments += '{';
  unknown_tool_ = unknown_tool_ || schema() == nullptr;
}

void OutputParser::open_value() {
  announce();
  key_ = trimmed(key_);
  value_.clear();
  std::string& out = current_call().arguments;
  if (arguments_++ > 0) out += ", ";
  out += '"';
  append_json_escaped(out, key_);
  out += "\": ";
  const Json* parameters = schema();
  streams_value_ = parameters != nullptr && argument_types(*parameters, key_).only_string();
  if (streams_value_) out += '"';
  state_ = State::kValue;
}

void OutputParser::add_value(std::string_view piece) {
  if (streams_value_) {
    append_json_escaped(current_call().arguments, piece);
  } else {
    value_ += piece;
  }
}

void OutputParser::close_value() {
  const Json* parameters = schema();
  const ArgumentTypes types =
      parameters != nullptr ? argument_types(*parameters, key_) : ArgumentTypes{};
  current_call().arguments += streams_value_ ? "\"" : argument_json(types, value_);
  state_ = State::kBetween;
}

void OutputParser::close_call() {
  if (state_ == State::kContent) return literal(OutputTag::kCallClose);
  if (state_ == State::kValue) close_value();
  announce();
  current_call().arguments += '}';
  ++closed_calls_;
  state_ = State::kContent;
}

ToolCallDelta& OutputParser::current_call() {
  const int index = calls_ - 1;
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != index) {
    delta_.tool_calls.push_back({.index = index, .name = {}, .arguments = {}});
  }
  return delta_.tool_calls.back();
}

const Json* OutputParser::schema() const {
  for (const auto& [name, parameters] : options_.tools) {
    if (name == name_) return &parameters;
  }
  return nullptr;
}

}  // namespace baton
