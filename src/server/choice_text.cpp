#include "server/choice_text.h"

#include <algorithm>

namespace baton {
namespace {

void add_call(ToolCallDelta&& delta, std::vector<ToolCallDelta>& calls) {
  const auto same = std::find_if(calls.begin(), calls.end(), [&](const ToolCallDelta& call) {
    return call.index == delta.index;
  });
  if (same == calls.end()) {
    calls.push_back(std::move(delta));
    return;
  }
  same->name += delta.name;
  same->arguments += delta.arguments;
}

}  // namespace

ChoiceText::ChoiceText(const Tokenizer& tokenizer, const ChoiceTextOptions& options)
    : detokenizer_(tokenizer, {options.skip_special_tokens}),
      stops_(options.stop, options.include_stop),
      stop_strings_(options.stop),
      tags_(options.parser ? options.parser->tags : OutputTags{}),
      stop_token_ids_(options.stop_token_ids),
      include_stop_(options.include_stop),
      one_call_(options.one_call) {
  if (options.parser) parser_ = std::make_unique<OutputParser>(*options.parser);
}

bool ChoiceText::push(OutputToken token, Piece& piece) {
  ++tokens_;
  const bool was_in_reasoning = in_reasoning();
  const auto tag = tags_.tokens.find(token.token);
  const auto part = tags_.parts.find(token.token);
  if (tag != tags_.tokens.end()) {
    add_text(detokenizer_.finish(), piece);
    add_tag(tag->second, piece);
  } else if (part != tags_.parts.end()) {
    add_text(detokenizer_.finish(), piece);
    add_text(part->second, piece);
  } else {
    add_text(detokenizer_.push(token.token), piece);
  }
  piece.tokens.push_back(std::move(token));
  if (was_in_reasoning || in_reasoning()) ++reasoning_tokens_;
  if (stops_.found()) {
    end_with_stop_string(piece);
    return true;
  }
  if (!one_call_ || !parser_ || parser_->closed_calls() == 0) return false;
  end({.finish_reason = "tool_calls"}, piece);
  return true;
}

void ChoiceText::push_stop_token(OutputToken token, Piece& piece) {
  ++tokens_;
  if (include_stop_ && names(token.token)) add_text(detokenizer_.push(token.token), piece);
  piece.tokens.push_back(std::move(token));
}

void ChoiceText::finish(const Finish& finish, Piece& piece) {
  // What ends a half character may complete a stop string too.
  add_text(detokenizer_.finish(), piece);
  if (stops_.found()) {
    end_with_stop_string(piece);
    return;
  }
  if (!stop_strings_.empty()) show(stops_.finish(), piece);
  close_parser(piece);
  const bool called = parser_ && parser_->closed_calls() > 0;
  const bool cut = finish.reason == FinishReason::kLength;
  ChoiceEnd how{.finish_reason = cut ? "length" : called ? "tool_calls" : "stop"};
  if (finish.stop_token && names(*finish.stop_token)) how.stop_token = finish.stop_token;
  end(std::move(how), piece);
}

void ChoiceText::end_with_stop_string(Piece& piece) {
  close_parser(piece);
  end({.finish_reason = "stop", .stop_text = stop_strings_[*stops_.found()]}, piece);
}

void ChoiceText::add_text(std::string_view text, Piece& piece) {
  if (text.empty() || stops_.found()) return;
  if (stop_strings_.empty()) {
    if (parser_) {
      take(parser_->text(text), piece);
    } else {
      piece.text += text;
    }
    return;
  }
  held_.push_back({std::nullopt, text.size()});
  show(stops_.push(text), piece);
}

void ChoiceText::add_tag(OutputTag tag, Piece& piece) {
  if (stops_.found()) return;
  if (stop_strings_.empty()) {
    take(parser_->tag(tag), piece);
    return;
  }
  const std::string_view text = tags_.texts[tag];
  held_.push_back({tag, text.size()});
  show(stops_.push(text), piece);
}

// The matcher lets out what went in, in order: text may come in parts, a tag counts once it is
// out as a whole (a stop string may cut it off).
void ChoiceText::show(std::string_view shown, Piece& piece) {
  while (!shown.empty() && !held_.empty()) {
    Held& first = held_.front();
    const size_t bytes = std::min(first.bytes, shown.size());
    if (first.tag) {
      if (bytes < first.bytes) {
        first.bytes -= bytes;
        return;
      }
      take(parser_->tag(*first.tag), piece);
    } else if (parser_) {
      take(parser_->text(shown.substr(0, bytes)), piece);
    } else {
      piece.text += shown.substr(0, bytes);
    }
    shown.remove_prefix(bytes);
    first.bytes -= bytes;
    if (first.bytes == 0) held_.pop_front();
  }
}

void ChoiceText::take(OutputDelta&& delta, Piece& piece) {
  said_something_ |= !delta.content.empty() || !delta.tool_calls.empty();
  piece.text += delta.content;
  piece.reasoning += delta.reasoning;
  for (ToolCallDelta& call : delta.tool_calls) add_call(std::move(call), piece.tool_calls);
}

void ChoiceText::close_parser(Piece& piece) {
  if (parser_) take(parser_->finish(), piece);
}

// Whether it is one the request named; the model's own are not told.
bool ChoiceText::names(int32_t stop_token) const {
  const auto& ids = stop_token_ids_;
  return std::find(ids.begin(), ids.end(), stop_token) != ids.end();
}

void ChoiceText::end(ChoiceEnd how, Piece& piece) const {
  if (parser_) {
    how.says_nothing = !said_something_;
    how.unknown_tool = parser_->unknown_tool();
  }
  piece.end = std::move(how);
}

}  // namespace baton
