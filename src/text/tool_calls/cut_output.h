// For tests: parses one output whole and in very many cuts, and expects the same answer.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/output_parser.h"

namespace baton {

// Tags are searched for in the text.
inline OutputParserOptions options_for(std::string_view format) {
  const ToolCallFormat* found = find_tool_call_format(format);
  OutputParserOptions options;
  options.calls = &found->syntax();
  const auto& tags = found->syntax().tags;
  options.tags.texts.insert(options.tags.texts.end(), tags.begin(), tags.end());
  return options;
}

struct Output {
  std::string reasoning, content;
  std::vector<std::string> names, arguments;
  int closed = 0;
  bool unknown = false;

  bool operator==(const Output&) const = default;
};

inline void join(Output& out, const OutputDelta& delta) {
  out.reasoning += delta.reasoning;
  out.content += delta.content;
  for (const ToolCallDelta& call : delta.tool_calls) {
    const size_t index = static_cast<size_t>(call.index);
    if (index >= out.names.size()) {
      ASSERT_EQ(index, out.names.size()) << "indices must come in order";
      EXPECT_FALSE(call.name.empty()) << "the first delta of a call names it";
      out.names.push_back(call.name);
      out.arguments.emplace_back();
    } else {
      EXPECT_TRUE(call.name.empty()) << "the name comes once";
    }
    out.arguments[index] += call.arguments;
  }
}

inline Output parse(const std::vector<std::string>& pieces, const OutputParserOptions& options) {
  OutputParser parser(options);
  Output out;
  for (const std::string& piece : pieces) join(out, parser.text(piece));
  join(out, parser.finish());
  out.closed = parser.closed_calls();
  out.unknown = parser.unknown_tool();
  return out;
}

// The next place, from `at` on, where text may be cut.
inline size_t next_border(const std::string& text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) ++at;
  return std::min(at, text.size());
}

// Parses `text` whole, in every fixed chunk size, at every single cut and at very many pairs.
inline Output parse_all_cuts(const std::string& text, const OutputParserOptions& options) {
  const Output whole = parse({text}, options);
  const auto expect_same = [&](const std::vector<std::string>& pieces) {
    const Output cut = parse(pieces, options);
    EXPECT_EQ(cut.reasoning, whole.reasoning);
    EXPECT_EQ(cut.content, whole.content);
    EXPECT_EQ(cut.names, whole.names);
    EXPECT_EQ(cut.arguments, whole.arguments);
    EXPECT_EQ(cut.closed, whole.closed);
  };
  for (size_t size = 1; size <= 40; ++size) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_border(text, at + size);
      pieces.push_back(text.substr(at, end - at));
      at = end;
    }
    expect_same(pieces);
  }
  for (size_t i = 0; i < text.size(); i = next_border(text, i + 1)) {
    expect_same({text.substr(0, i), text.substr(i)});
  }
  const size_t end = std::min<size_t>(text.size(), 200);
  for (size_t i = 0; i < end; i = next_border(text, i + 3)) {
    for (size_t j = i; j < end; j = next_border(text, j + 5)) {
      expect_same({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
    }
  }
  return whole;
}

}  // namespace baton
