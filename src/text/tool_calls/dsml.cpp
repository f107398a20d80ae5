// DeepSeek-V3.2 (models.md F.2, the encoder published with the model): a block of calls,
//   <｜DSML｜function_calls>
//   <｜DSML｜invoke name="N">
//   <｜DSML｜parameter name="K" string="true">V</｜DSML｜parameter>
//   </｜DSML｜invoke>
//   </｜DSML｜function_calls>
// string="true": V is the text itself, whose only end is its closing tag; "false": V is JSON.
#include <array>
#include <optional>

#include "text/tool_calls/argument_types.h"
#include "text/tool_calls/blanks.h"
#include "text/tool_calls/formats.h"

namespace baton {
namespace {

enum Tag : uint8_t { kBlockOpen, kBlockClose, kCallOpen, kCallClose, kValueOpen, kValueClose };

// The opening tags of calls and parameters end before their attributes.
constexpr std::array<std::string_view, 6> kTags = {"<｜DSML｜function_calls>",
                                                   "</｜DSML｜function_calls>",
                                                   "<｜DSML｜invoke",
                                                   "</｜DSML｜invoke>",
                                                   "<｜DSML｜parameter",
                                                   "</｜DSML｜parameter>"};
constexpr std::array<std::string_view, 1> kVocabulary = {"｜DSML｜"};

struct Attributes {
  std::string_view name;
  bool is_string = false;  // of a parameter
};

// What stands between `before` and `after`, blanks around them apart.
std::optional<std::string_view> between(std::string_view text,
                                        std::string_view before,
                                        std::string_view after) {
  text = without_blanks(text);
  if (text.size() < before.size() + after.size()) return std::nullopt;
  if (!text.starts_with(before) || !text.ends_with(after)) return std::nullopt;
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

std::optional<Attributes> call_attributes(std::string_view head) {
  const auto name = between(head, "name=\"", "\">");
  if (!name || is_blank(*name)) return std::nullopt;
  return Attributes{.name = *name};
}

std::optional<Attributes> parameter_attributes(std::string_view head) {
  if (const auto key = between(head, "name=\"", "\" string=\"true\">"))
    return Attributes{*key, true};
  if (const auto key = between(head, "name=\"", "\" string=\"false\">")) return Attributes{*key};
  return std::nullopt;
}

class DsmlReader final : public CallReader {
 public:
  explicit DsmlReader(CallWriter& writer) : writer_(writer) {}

  void text(std::string_view piece) override;
  void tag(size_t tag) override;
  void finish() override;
  bool in_call() const override { return state_ != State::kContent; }

 private:
  // The heads end at the '>' that completes their attributes; kBlock: between calls, kCall:
  // between parameters.
  enum class State : uint8_t { kContent, kBlock, kCallHead, kCall, kValueHead, kValue };

  std::string_view read_head(std::string_view piece);
  void leave_head();
  void leave_stray();
  void open_call(const Attributes& attributes);
  void close_call();
  void open_value(const Attributes& attributes);
  void close_value();

  CallWriter& writer_;
  State state_ = State::kContent;
  std::string head_, key_, value_, stray_;
  bool streams_value_ = false;
  bool has_arguments_ = false;
};

void DsmlReader::text(std::string_view piece) {
  while (state_ == State::kCallHead || state_ == State::kValueHead) {
    if (piece.empty()) return;
    piece = read_head(piece);
  }
  switch (state_) {
    case State::kContent:
      return writer_.content(piece);
    case State::kValue:
      if (streams_value_) {
        std::string escaped;
        append_json_escaped(escaped, piece);
        return writer_.arguments(escaped);
      }
      value_ += piece;
      return;
    default:
      stray_ += piece;
  }
}

// Returns what follows the head.
std::string_view DsmlReader::read_head(std::string_view piece) {
  const size_t end = piece.find('>');
  head_ += piece.substr(0, end == std::string_view::npos ? end : end + 1);
  if (end == std::string_view::npos) return {};
  const bool is_call = state_ == State::kCallHead;
  const auto attributes = is_call ? call_attributes(head_) : parameter_attributes(head_);
  if (attributes && is_call) open_call(*attributes);
  if (attributes && !is_call) open_value(*attributes);
  return piece.substr(end + 1);
}

void DsmlReader::tag(size_t tag) {
  if (state_ == State::kValue) {
    if (tag != kValueClose) return text(kTags[tag]);
    return close_value();
  }
  if (state_ == State::kContent && tag != kBlockOpen) return writer_.content(kTags[tag]);
  leave_head();
  leave_stray();
  switch (tag) {
    case kBlockOpen:
    case kBlockClose:
      if (state_ == State::kCall) close_call();
      state_ = tag == kBlockOpen ? State::kBlock : State::kContent;
      break;
    case kCallOpen:
      if (state_ == State::kCall) close_call();
      head_.clear();
      state_ = State::kCallHead;
      break;
    case kCallClose:
      if (state_ == State::kCall) return close_call();
      return writer_.content(kTags[tag]);
    case kValueOpen:
      if (state_ != State::kCall) return writer_.content(kTags[tag]);
      head_.clear();
      state_ = State::kValueHead;
      break;
    default:
      writer_.content(kTags[tag]);
  }
}

void DsmlReader::finish() {
  leave_head();
  leave_stray();
  if (state_ == State::kValue && !streams_value_) writer_.arguments(value_);
}

// Attributes that never became complete: the tag is none, and what was written is content.
void DsmlReader::leave_head() {
  if (state_ != State::kCallHead && state_ != State::kValueHead) return;
  const bool is_call = state_ == State::kCallHead;
  writer_.content(kTags[is_call ? kCallOpen : kValueOpen]);
  writer_.content(head_);
  state_ = is_call ? State::kBlock : State::kCall;
}

void DsmlReader::leave_stray() {
  if (!is_blank(stray_)) writer_.content(stray_);
  stray_.clear();
}

void DsmlReader::open_call(const Attributes& attributes) {
  writer_.open(std::string(attributes.name));
  writer_.arguments("{");
  has_arguments_ = false;
  state_ = State::kCall;
}

void DsmlReader::close_call() {
  writer_.arguments("}");
  writer_.close();
  state_ = State::kBlock;
}

void DsmlReader::open_value(const Attributes& attributes) {
  key_ = attributes.name;
  value_.clear();
  std::string out = has_arguments_ ? ", \"" : "\"";
  append_json_escaped(out, key_);
  out += "\": ";
  has_arguments_ = true;
  streams_value_ = attributes.is_string;
  if (streams_value_) out += '"';
  writer_.arguments(out);
  state_ = State::kValue;
}

// Values that are no JSON although they are said to be become what the schema makes of them.
void DsmlReader::close_value() {
  state_ = State::kCall;
  if (streams_value_) return writer_.arguments("\"");
  const Json* parameters = writer_.parameters();
  const ArgumentTypes types =
      parameters != nullptr ? argument_types(*parameters, key_) : ArgumentTypes{};
  const bool is_json = parse_json(value_, "argument").has_value();
  const bool as_written = is_json && !types.only_string();
  writer_.arguments(as_written ? std::string(without_blanks(value_))
                               : argument_json(types, value_));
}

}  // namespace

const CallSyntax& dsml_calls() {
  static constexpr CallSyntax kSyntax = {
      .tags = kTags,
      .vocabulary = kVocabulary,
      .separator = "\n\n",
      .make_reader = [](CallWriter& writer) -> std::unique_ptr<CallReader> {
        return std::make_unique<DsmlReader>(writer);
      }};
  return kSyntax;
}

}  // namespace baton
