// Qwen3-Coder (models.md F.3, the chat template published with the models):
//   <tool_call>
//   <function=N>
//   <parameter=K>
//   V
//   </parameter>
//   </function>
//   </tool_call>
// One newline on each side of V belongs to the format. V ends at a </parameter> at the beginning
// of a line, or, if it did not begin on a line of its own, at the first one. The tool's schema
// says which values are text and which are JSON.
#include <array>

#include "text/tool_calls/argument_types.h"
#include "text/tool_calls/blanks.h"
#include "text/tool_calls/formats.h"

namespace baton {
namespace {

enum Tag : uint8_t { kBlockOpen, kBlockClose, kCallOpen, kCallClose, kValueOpen, kValueClose };

// The opening tags of functions and parameters end before their name.
constexpr std::array<std::string_view, 6> kTags = {
    "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"};
constexpr std::array kVocabulary = {kTags[kBlockOpen], kTags[kBlockClose]};

class QwenCoderReader final : public CallReader {
 public:
  explicit QwenCoderReader(CallWriter& writer) : writer_(writer) {}

  void text(std::string_view piece) override;
  void tag(size_t tag) override;
  void finish() override;
  bool in_call() const override { return state_ != State::kContent; }

 private:
  // The heads end at '>'; kBlock: outside the function, kCall: between parameters.
  enum class State : uint8_t { kContent, kBlock, kCallHead, kCall, kValueHead, kValue };

  std::string_view read_head(std::string_view piece);
  void leave_head();
  void leave_stray();
  void open_call();
  void close_call();
  void open_value();
  void add_value(std::string_view piece);
  void send_string(std::string_view piece);
  bool value_may_end() const;
  void close_value();

  CallWriter& writer_;
  State state_ = State::kContent;
  std::string head_, key_, stray_;
  std::string value_;  // not yet sent
  bool streams_value_ = false;
  bool value_begun_ = false;  // its first character is known
  bool on_own_lines_ = false;
  char last_ = '\0';  // of the value
  bool has_arguments_ = false;
};

void QwenCoderReader::text(std::string_view piece) {
  while (state_ == State::kCallHead || state_ == State::kValueHead) {
    if (piece.empty()) return;
    piece = read_head(piece);
  }
  if (state_ == State::kContent) return writer_.content(piece);
  if (state_ == State::kValue) return add_value(piece);
  stray_ += piece;
}

// Returns what follows the head.
std::string_view QwenCoderReader::read_head(std::string_view piece) {
  const size_t end = piece.find('>');
  head_ += piece.substr(0, end);
  if (end == std::string_view::npos) return {};
  if (is_blank(head_)) {
    head_ += '>';
    leave_head();
  } else if (state_ == State::kCallHead) {
    open_call();
  } else {
    open_value();
  }
  return piece.substr(end + 1);
}

void QwenCoderReader::tag(size_t tag) {
  if (state_ == State::kValue) {
    if (tag == kValueClose && value_may_end()) return close_value();
    return add_value(kTags[tag]);
  }
  if (state_ == State::kContent && tag != kBlockOpen) return writer_.content(kTags[tag]);
  leave_head();
  leave_stray();
  const bool in_function = state_ == State::kCall;
  switch (tag) {
    case kBlockOpen:
    case kBlockClose:
      if (in_function) close_call();
      state_ = tag == kBlockOpen ? State::kBlock : State::kContent;
      break;
    case kCallOpen:
      if (in_function) close_call();
      head_.clear();
      state_ = State::kCallHead;
      break;
    case kCallClose:
      if (in_function) return close_call();
      return writer_.content(kTags[tag]);
    case kValueOpen:
      if (!in_function) return writer_.content(kTags[tag]);
      head_.clear();
      state_ = State::kValueHead;
      break;
    default:
      writer_.content(kTags[tag]);
  }
}

void QwenCoderReader::finish() {
  leave_head();
  leave_stray();
  if (state_ != State::kValue) return;
  if (streams_value_) return send_string({});
  writer_.arguments(value_);
}

// A head that never became complete: what was written is content.
void QwenCoderReader::leave_head() {
  if (state_ != State::kCallHead && state_ != State::kValueHead) return;
  const bool is_call = state_ == State::kCallHead;
  writer_.content(kTags[is_call ? kCallOpen : kValueOpen]);
  writer_.content(head_);
  state_ = is_call ? State::kBlock : State::kCall;
}

void QwenCoderReader::leave_stray() {
  if (!is_blank(stray_)) writer_.content(stray_);
  stray_.clear();
}

void QwenCoderReader::open_call() {
  writer_.open(std::string(without_blanks(head_)));
  writer_.arguments("{");
  has_arguments_ = false;
  state_ = State::kCall;
}

void QwenCoderReader::close_call() {
  writer_.arguments("}");
  writer_.close();
  state_ = State::kBlock;
}

void QwenCoderReader::open_value() {
  key_ = without_blanks(head_);
  value_.clear();
  value_begun_ = on_own_lines_ = false;
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

void QwenCoderReader::add_value(std::string_view piece) {
  if (piece.empty()) return;
  last_ = piece.back();
  if (!value_begun_) {
    value_begun_ = true;
    on_own_lines_ = piece.front() == '\n';
    if (on_own_lines_) piece.remove_prefix(1);
  }
  if (streams_value_) return send_string(piece);
  value_ += piece;
}

// A newline at the end waits: it may belong to the format.
void QwenCoderReader::send_string(std::string_view piece) {
  std::string text = std::exchange(value_, {});
  text += piece;
  if (!piece.empty() && text.ends_with('\n')) {
    text.pop_back();
    value_ = '\n';
  }
  std::string escaped;
  append_json_escaped(escaped, text);
  writer_.arguments(escaped);
}

bool QwenCoderReader::value_may_end() const {
  return !value_begun_ || !on_own_lines_ || last_ == '\n';
}

void QwenCoderReader::close_value() {
  state_ = State::kCall;
  if (streams_value_) return writer_.arguments("\"");  // without the newline that waited
  if (value_.ends_with('\n')) value_.pop_back();
  const Json* parameters = writer_.parameters();
  const ArgumentTypes types =
      parameters != nullptr ? argument_types(*parameters, key_) : ArgumentTypes{};
  writer_.arguments(argument_json(types, value_));
}

}  // namespace

const CallSyntax& qwen_coder_calls() {
  static constexpr CallSyntax kSyntax = {
      .tags = kTags,
      .vocabulary = kVocabulary,
      .separator = "\n",
      .make_reader = [](CallWriter& writer) -> std::unique_ptr<CallReader> {
        return std::make_unique<QwenCoderReader>(writer);
      }};
  return kSyntax;
}

}  // namespace baton
