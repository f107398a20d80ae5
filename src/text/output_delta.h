// What a client sees next of one answer. Deltas of an answer are joined field by field.
#pragma once

#include <string>
#include <vector>

namespace baton {

struct ToolCallDelta {
  int index = 0;
  std::string name;       // in the first delta of an index, never again
  std::string arguments;  // appended; the joined text is one JSON object once the call closed
};

struct OutputDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;  // at most one entry per index

  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

}  // namespace baton
