// Collects what the readers of a call format find: content and calls, numbered in their order,
// and the whitespace between them, which belongs to the format. One per answer, of its parser.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/output_delta.h"

namespace baton {

// name -> JSON schema of its arguments.
using OfferedTools = std::vector<std::pair<std::string, Json>>;

class CallWriter {
 public:
  // `separator`: the newlines that the format puts between content and a call. `tools` must
  // outlive this.
  CallWriter(const OfferedTools& tools, std::string_view separator)
      : tools_(tools), separator_(separator) {}

  void reasoning(std::string_view piece) { delta_.reasoning += piece; }
  // Content of an answer without calls: all of it, at once.
  void plain_content(std::string_view piece) { delta_.content += piece; }
  // Keeps back newlines that may turn out to separate a call, and whitespace before anything is
  // said or after a call, which is content only if more content follows.
  void content(std::string_view piece);

  // A call whose name is known: from now on it is sent as it comes.
  void open(const std::string& name);
  void arguments(std::string_view json);  // appended to those of the open call
  // The model finished the open call. A call that breaks off is simply never closed.
  void close();

  // The schema of the open call; null if no such tool was offered.
  const Json* parameters() const { return parameters_; }

  // The end of the answer.
  void finish();
  OutputDelta take() { return std::exchange(delta_, {}); }

  int closed_calls() const { return closed_calls_; }
  bool unknown_tool() const { return unknown_tool_; }

 private:
  ToolCallDelta& current_call();

  const OfferedTools& tools_;
  const std::string_view separator_;
  OutputDelta delta_;
  std::string held_;         // whitespace that may belong to the format
  bool said_ = false;        // content that is not blank
  bool after_call_ = false;  // and nothing but whitespace since
  const Json* parameters_ = nullptr;
  int calls_ = 0;
  int closed_calls_ = 0;
  bool unknown_tool_ = false;
};

}  // namespace baton
