#include "text/tool_calls/call_writer.h"

#include <algorithm>

#include "text/tool_calls/blanks.h"

namespace baton {

void CallWriter::content(std::string_view piece) {
  std::string text = std::exchange(held_, {});
  text += piece;
  if (is_blank(text) && (after_call_ || !said_)) {
    held_ = std::move(text);
    return;
  }
  size_t keep = 0;
  while (keep < separator_.size() && keep < text.size() && text[text.size() - 1 - keep] == '\n') {
    ++keep;
  }
  held_ = text.substr(text.size() - keep);
  text.resize(text.size() - keep);
  delta_.content += text;
  said_ = true;
  after_call_ = false;
}

void CallWriter::open(const std::string& name) {
  if (said_ && !after_call_ && held_ != separator_) delta_.content += held_;
  held_.clear();
  ++calls_;
  current_call().name = name;
  const auto tool = std::find_if(
      tools_.begin(), tools_.end(), [&name](const auto& entry) { return entry.first == name; });
  parameters_ = tool == tools_.end() ? nullptr : &tool->second;
  unknown_tool_ = unknown_tool_ || parameters_ == nullptr;
  after_call_ = true;
}

void CallWriter::arguments(std::string_view json) {
  current_call().arguments += json;
}

void CallWriter::close() {
  ++closed_calls_;
}

void CallWriter::finish() {
  if (!after_call_) delta_.content += held_;
  held_.clear();
}

ToolCallDelta& CallWriter::current_call() {
  const int index = calls_ - 1;
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != index) {
    delta_.tool_calls.push_back({.index = index, .name = {}, .arguments = {}});
  }
  return delta_.tool_calls.back();
}

}  // namespace baton
