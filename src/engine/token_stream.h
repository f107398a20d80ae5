// What one request has produced and its client has not yet got. Engine thread. Exactly one
// delivery carries the finish, and nothing is delivered after it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/request.h"

namespace baton {

class TokenStream {
 public:
  TokenStream(std::function<void(StreamUpdate&&)> deliver, int32_t interval)
      : deliver_(std::move(deliver)), interval_(interval) {}

  void add(OutputToken token) { pending_.tokens.push_back(std::move(token)); }
  void add_prompt_logprobs(std::vector<OutputToken> logprobs) {
    pending_.prompt_logprobs = std::move(logprobs);
  }

  // Delivers when enough tokens are there: the first one at once, then every `interval`.
  // False: the client's function threw, and the request should end.
  bool flush();
  // The last delivery. What the client's function throws is dropped: there is nobody to tell.
  void finish(Finish finish);

 private:
  bool send();

  std::function<void(StreamUpdate&&)> deliver_;
  int32_t interval_;
  StreamUpdate pending_;
  bool started_ = false;
  bool finished_ = false;
};

}  // namespace baton
