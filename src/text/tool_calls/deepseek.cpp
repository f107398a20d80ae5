// DeepSeek-V3, R1 and V3.1 (models.md F.2, the chat templates published with the models): a block
// of calls with JSON arguments, in one of two forms,
//   <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>                        V3.1
//   <｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{...}\n```<｜tool▁call▁end｜>  V3, R1
// between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>. What was written tells them apart.
#include <array>

#include "text/tool_calls/blanks.h"
#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_stream.h"

namespace baton {
namespace {

enum Tag : uint8_t { kBlockOpen, kBlockClose, kCallOpen, kSeparator, kCallClose };

constexpr std::array<std::string_view, 5> kTags = {"<｜tool▁calls▁begin｜>",
                                                   "<｜tool▁calls▁end｜>",
                                                   "<｜tool▁call▁begin｜>",
                                                   "<｜tool▁sep｜>",
                                                   "<｜tool▁call▁end｜>"};
constexpr std::string_view kFence = "```";
constexpr std::string_view kType = "function";  // the only one of V3

// The name that stands before the arguments in the form of V3; empty if none does.
std::string_view name_before_arguments(std::string_view text) {
  text = without_blanks(text);
  for (const std::string_view fence : {"```json", "```"}) {
    if (text.ends_with(fence)) {
      text = without_blanks(text.substr(0, text.size() - fence.size()));
      break;
    }
  }
  return text.find_first_of("\r\n`") == std::string_view::npos ? text : std::string_view();
}

class DeepSeekReader final : public CallReader {
 public:
  explicit DeepSeekReader(CallWriter& writer) : writer_(writer) {}

  void text(std::string_view piece) override;
  void tag(size_t tag) override;
  void finish() override;
  bool in_call() const override { return state_ != State::kContent; }

 private:
  // kHead: up to the separator; kBody: up to the '{' of the arguments; kAfter: behind arguments
  // that are complete, or that broke off.
  enum class State : uint8_t { kContent, kBlock, kHead, kBody, kArguments, kAfter };

  std::string_view read_body(std::string_view piece);
  std::string_view read_arguments(std::string_view piece);
  void leave_call();
  void leave_stray();

  CallWriter& writer_;
  State state_ = State::kContent;
  std::string head_, body_, stray_;
  JsonStream json_;
};

void DeepSeekReader::text(std::string_view piece) {
  if (state_ == State::kBody) piece = read_body(piece);
  if (state_ == State::kArguments) piece = read_arguments(piece);
  if (state_ == State::kContent) return writer_.content(piece);
  (state_ == State::kHead ? head_ : state_ == State::kBody ? body_ : stray_) += piece;
}

// Returns what follows: from the '{' on once the name is known.
std::string_view DeepSeekReader::read_body(std::string_view piece) {
  if (body_.find('{') != std::string::npos) return piece;  // no call any more
  const size_t brace = piece.find('{');
  if (brace == std::string_view::npos) return piece;
  body_ += piece.substr(0, brace);
  piece.remove_prefix(brace);
  const std::string_view head = without_blanks(head_);
  std::string_view name;
  if (is_blank(body_)) {
    name = head;
  } else if (head == kType) {
    name = name_before_arguments(body_);
  }
  if (name.empty()) return piece;
  writer_.open(std::string(name));
  json_ = JsonStream();
  state_ = State::kArguments;
  return piece;
}

std::string_view DeepSeekReader::read_arguments(std::string_view piece) {
  size_t end = 0;
  while (end < piece.size() && !json_.complete() && json_.push(piece[end])) ++end;
  writer_.arguments(piece.substr(0, end));
  if (json_.complete() || end < piece.size()) state_ = State::kAfter;
  return piece.substr(end);
}

void DeepSeekReader::tag(size_t tag) {
  if (state_ == State::kContent && tag != kBlockOpen) return writer_.content(kTags[tag]);
  if (state_ == State::kArguments && json_.in_string()) return text(kTags[tag]);
  if (tag == kSeparator && state_ == State::kHead) {
    body_.clear();
    state_ = State::kBody;
    return;
  }
  const bool was_call = state_ == State::kArguments || state_ == State::kAfter;
  leave_call();
  leave_stray();
  if (tag == kSeparator || (tag == kCallClose && !was_call)) return writer_.content(kTags[tag]);
  head_.clear();
  state_ = State::kBlock;
  if (tag == kCallOpen) state_ = State::kHead;
  if (tag == kBlockClose) state_ = State::kContent;
}

void DeepSeekReader::finish() {
  leave_call();
  leave_stray();
}

// Ends the call, if there is one: what never became one is content.
void DeepSeekReader::leave_call() {
  if (state_ == State::kContent || state_ == State::kBlock) return;
  if (state_ == State::kHead || state_ == State::kBody) {
    writer_.content(kTags[kCallOpen]);
    writer_.content(head_);
    if (state_ == State::kBody) {
      writer_.content(kTags[kSeparator]);
      writer_.content(body_);
    }
  } else if (json_.complete()) {
    writer_.close();
    if (without_blanks(stray_) == kFence) stray_.clear();
  }
  state_ = State::kBlock;
}

void DeepSeekReader::leave_stray() {
  if (!is_blank(stray_)) writer_.content(stray_);
  stray_.clear();
}

}  // namespace

const CallSyntax& deepseek_calls() {
  static constexpr CallSyntax kSyntax = {
      .tags = kTags,
      .vocabulary = kTags,
      .separator = "",
      .make_reader = [](CallWriter& writer) -> std::unique_ptr<CallReader> {
        return std::make_unique<DeepSeekReader>(writer);
      }};
  return kSyntax;
}

}  // namespace baton
