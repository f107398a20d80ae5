#include "text/tool_calls/formats.h"

#include <algorithm>
#include <array>

namespace baton {
namespace {

constexpr std::array kFormats = {
    ToolCallFormat{"deepseek_v32", &dsml_calls, "<｜DSML｜function_calls>"},
    ToolCallFormat{"deepseek_v3", &deepseek_calls, "```json"},
    ToolCallFormat{"deepseek_v31", &deepseek_calls, "<｜tool▁sep｜>"},
    ToolCallFormat{"glm47", &glm_calls, "<arg_key>"},
    ToolCallFormat{"glm45", &glm_calls, "<arg_key>"},
    ToolCallFormat{"qwen3_coder", &qwen_coder_calls, "<function="},
    ToolCallFormat{"hermes", &hermes_calls, "<tool_call>"},
};

}  // namespace

std::span<const ToolCallFormat> tool_call_formats() {
  return kFormats;
}

const ToolCallFormat* find_tool_call_format(std::string_view name) {
  const auto found = std::find_if(
      kFormats.begin(), kFormats.end(), [name](const auto& format) { return format.name == name; });
  return found == kFormats.end() ? nullptr : &*found;
}

std::string tool_call_format_names() {
  std::string names;
  for (const ToolCallFormat& format : kFormats) {
    if (!names.empty()) names += &format == &kFormats.back() ? " or " : ", ";
    names += format.name;
  }
  return names;
}

}  // namespace baton
