// Hermes, as Qwen3 writes it (models.md F.3, the chat template published with the models):
//   <tool_call>
//   {"name": "N", "arguments": {...}}
//   </tool_call>
// The arguments are sent as they come if the name stands before them, otherwise once the call is
// complete.
#include <array>

#include "text/tool_calls/blanks.h"
#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_stream.h"

namespace baton {
namespace {

enum Tag : uint8_t { kCallOpen, kCallClose };

constexpr std::array<std::string_view, 2> kTags = {"<tool_call>", "</tool_call>"};

// The name of a call whose object begins with `text`; empty if there is none before the
// arguments, which begin behind it.
std::string name_before_arguments(const std::string& text) {
  const Result<Json> call = parse_json(text + "}}", "call");
  if (!call || !call->contains("name") || !(*call)["name"].is_string()) return {};
  return std::prev(call->end()).key() == "arguments" ? (*call)["name"].get<std::string>()
                                                     : std::string();
}

class HermesReader final : public CallReader {
 public:
  explicit HermesReader(CallWriter& writer) : writer_(writer) {}

  void text(std::string_view piece) override;
  void tag(size_t tag) override;
  void finish() override;
  bool in_call() const override { return state_ != State::kContent; }

 private:
  // kHead: the whole call so far; kAfter: behind the arguments, or behind what broke them.
  enum class State : uint8_t { kContent, kHead, kArguments, kAfter };

  void read(char c);
  bool send_whole_call();
  void leave_call();

  CallWriter& writer_;
  State state_ = State::kContent;
  std::string text_;       // of kHead
  std::string arguments_;  // not yet sent
  std::string stray_;
  JsonStream json_;
  bool broken_ = false;      // the text cannot be JSON any more
  bool tried_name_ = false;  // the beginning of the arguments was met
  bool has_arguments_ = false;
};

void HermesReader::text(std::string_view piece) {
  if (state_ == State::kContent) return writer_.content(piece);
  for (const char c : piece) read(c);
  if (!arguments_.empty()) writer_.arguments(std::exchange(arguments_, {}));
}

void HermesReader::read(char c) {
  broken_ = broken_ || !json_.push(c);
  if (state_ == State::kArguments && broken_) state_ = State::kAfter;
  if (state_ == State::kHead) {
    text_ += c;
    if (broken_ || tried_name_ || c != '{' || json_.depth() != 2 || json_.in_string()) return;
    const std::string name = name_before_arguments(text_);
    if (is_blank(name)) return;
    tried_name_ = true;
    writer_.open(name);
    state_ = State::kArguments;
  }
  if (state_ == State::kArguments) {
    arguments_ += c;
    has_arguments_ = json_.depth() == 1;
    if (has_arguments_) state_ = State::kAfter;
  } else if (broken_ || !json_.complete()) {
    stray_ += c;  // behind the arguments belongs the end of the object only
  }
}

void HermesReader::tag(size_t tag) {
  if (state_ == State::kContent) {
    if (tag == kCallClose) return writer_.content(kTags[tag]);
  } else {
    if (!broken_ && json_.in_string()) return text(kTags[tag]);
    const bool was_call = state_ != State::kHead || send_whole_call();
    leave_call();
    if (tag == kCallClose) {
      if (!was_call) writer_.content(kTags[tag]);
      return;
    }
  }
  text_.clear();
  json_ = JsonStream();
  broken_ = tried_name_ = has_arguments_ = false;
  state_ = State::kHead;
}

void HermesReader::finish() {
  leave_call();
}

// A call whose name came last, or without arguments.
bool HermesReader::send_whole_call() {
  const Result<Json> call = parse_json(text_, "call");
  if (!call || !call->is_object()) return false;
  const auto name = call->find("name");
  if (name == call->end() || !name->is_string() || is_blank(name->get<std::string>())) return false;
  const Json arguments = call->value("arguments", Json::object());
  if (!arguments.is_object() || call->size() > (call->contains("arguments") ? 2U : 1U))
    return false;
  writer_.open(name->get<std::string>());
  writer_.arguments(dump_json(arguments));
  has_arguments_ = true;
  state_ = State::kAfter;
  return true;
}

void HermesReader::leave_call() {
  if (state_ == State::kHead) {
    writer_.content(kTags[kCallOpen]);
    writer_.content(text_);
  }
  if (state_ == State::kAfter && has_arguments_) writer_.close();
  if (!is_blank(stray_)) writer_.content(stray_);
  stray_.clear();
  state_ = State::kContent;
}

}  // namespace

const CallSyntax& hermes_calls() {
  static constexpr CallSyntax kSyntax = {
      .tags = kTags,
      .vocabulary = kTags,
      .separator = "\n",
      .make_reader = [](CallWriter& writer) -> std::unique_ptr<CallReader> {
        return std::make_unique<HermesReader>(writer);
      }};
  return kSyntax;
}

}  // namespace baton
