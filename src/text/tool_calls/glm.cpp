// GLM (models.md F.1): <tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value>...</tool_call>,
// on one line (4.7, 5.x) or several (4.5, 4.6). Strings are raw text whose only end is
// </arg_value>, everything else is JSON; the tool's schema says which.
#include <array>

#include "text/tool_calls/argument_types.h"
#include "text/tool_calls/blanks.h"
#include "text/tool_calls/formats.h"

namespace baton {
namespace {

enum Tag : uint8_t { kCallOpen, kCallClose, kKeyOpen, kKeyClose, kValueOpen, kValueClose };

constexpr std::array<std::string_view, 6> kTags = {
    "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
constexpr std::array kVocabulary = {
    kTags[kCallOpen], kTags[kCallClose], kTags[kKeyOpen], kTags[kValueClose]};

class GlmReader final : public CallReader {
 public:
  explicit GlmReader(CallWriter& writer) : writer_(writer) {}

  void text(std::string_view piece) override;
  void tag(size_t tag) override;
  void finish() override;
  bool in_call() const override { return state_ != State::kContent; }

 private:
  // kBetween: after the name or a value; what stands there has no place in a call.
  enum class State : uint8_t { kContent, kName, kBetween, kKey, kAfterKey, kValue };

  void call_tag(size_t tag);
  void give_up_call();
  void announce();
  void give_up_key();
  void leave_stray();
  void open_value();
  void close_value();
  void close_call();

  CallWriter& writer_;
  State state_ = State::kContent;
  std::string name_, key_, value_, stray_;
  bool streams_value_ = false;  // a string, sent as it comes
  bool has_arguments_ = false;
};

void GlmReader::text(std::string_view piece) {
  switch (state_) {
    case State::kContent:
      return writer_.content(piece);
    case State::kName:
      name_ += piece;
      return;
    case State::kKey:
      key_ += piece;
      return;
    case State::kBetween:
    case State::kAfterKey:
      stray_ += piece;
      return;
    case State::kValue:
      if (!streams_value_) {
        value_ += piece;
        return;
      }
      std::string escaped;
      append_json_escaped(escaped, piece);
      return writer_.arguments(escaped);
  }
}

void GlmReader::tag(size_t tag) {
  if (state_ == State::kContent && tag != kCallOpen) return writer_.content(kTags[tag]);
  if (state_ == State::kValue && tag != kValueClose) return text(kTags[tag]);
  leave_stray();
  call_tag(tag);
}

void GlmReader::call_tag(size_t tag) {
  if (state_ == State::kName && is_blank(name_)) {
    give_up_call();
    return this->tag(tag);
  }
  switch (tag) {
    case kCallOpen:
      if (state_ != State::kContent) close_call();
      name_.clear();
      state_ = State::kName;
      break;
    case kCallClose:
      close_call();
      break;
    case kKeyOpen:
      announce();
      give_up_key();
      state_ = State::kKey;
      break;
    case kKeyClose:
      if (state_ == State::kKey) state_ = State::kAfterKey;
      break;
    case kValueOpen:
      open_value();
      break;
    case kValueClose:
      if (state_ == State::kValue) close_value();
      break;
    default:
      break;
  }
}

void GlmReader::finish() {
  leave_stray();
  if (state_ == State::kName) give_up_call();
  give_up_key();
  // A cut-off value that was held back for its type is sent as far as it came.
  if (state_ == State::kValue && !streams_value_) writer_.arguments(value_);
}

// Without a name, or cut off in it, it is no call: what was written is content.
void GlmReader::give_up_call() {
  state_ = State::kContent;
  writer_.content(kTags[kCallOpen]);
  writer_.content(name_);
}

void GlmReader::announce() {
  if (state_ != State::kName) return;
  name_ = without_blanks(name_);
  writer_.open(name_);
  writer_.arguments("{");
  has_arguments_ = false;
  state_ = State::kBetween;
}

// A key without a value.
void GlmReader::give_up_key() {
  if (state_ == State::kKey || state_ == State::kAfterKey) {
    writer_.content(kTags[kKeyOpen]);
    writer_.content(key_);
    if (state_ == State::kAfterKey) writer_.content(kTags[kKeyClose]);
  }
  key_.clear();
}

void GlmReader::leave_stray() {
  if (!is_blank(stray_)) writer_.content(stray_);
  stray_.clear();
}

void GlmReader::open_value() {
  announce();
  key_ = without_blanks(key_);
  value_.clear();
  std::string out = has_arguments_ ? ", \"" : "\"";
  append_json_escaped(out, key_);
  out += "\": ";
  has_arguments_ = true;
  const Json* parameters = writer_.parameters();
  streams_value_ = parameters != nullptr && argument_types(*parameters, key_).only_string();
  if (streams_value_) out += '"';
  writer_.arguments(out);
  state_ = State::kValue;
}

void GlmReader::close_value() {
  const Json* parameters = writer_.parameters();
  const ArgumentTypes types =
      parameters != nullptr ? argument_types(*parameters, key_) : ArgumentTypes{};
  writer_.arguments(streams_value_ ? "\"" : argument_json(types, value_));
  key_.clear();
  state_ = State::kBetween;
}

void GlmReader::close_call() {
  announce();
  give_up_key();
  writer_.arguments("}");
  writer_.close();
  state_ = State::kContent;
}

}  // namespace

const CallSyntax& glm_calls() {
  static constexpr CallSyntax kSyntax = {
      .tags = kTags,
      .vocabulary = kVocabulary,
      .separator = "",
      .make_reader = [](CallWriter& writer) -> std::unique_ptr<CallReader> {
        return std::make_unique<GlmReader>(writer);
      }};
  return kSyntax;
}

}  // namespace baton
