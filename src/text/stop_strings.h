// Finds stop strings in text that arrives in pieces. Text is held back only while its end could
// still become a stop string, and never longer: nothing of a stop string is shown before it is
// decided, and nothing else waits. One per sequence, used by the thread that writes its stream.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

class StopStringMatcher {
 public:
  // Empty stop strings are ignored. `include_stop`: the stop string found is part of the text.
  explicit StopStringMatcher(std::vector<std::string> stops, bool include_stop = false);

  // The text that may be shown now. After a stop string was found: always empty.
  std::string push(std::string_view text);

  // The end of the sequence without a stop: what was held back.
  std::string finish();

  // Index into the constructor's list, once one is found. The one that is complete first wins;
  // of those completed by the same byte, the one that began first.
  std::optional<size_t> found() const { return found_; }

 private:
  struct Hit {
    size_t end;    // in held_, one past the stop string
    size_t begin;  // in held_
    size_t index;
  };

  std::optional<Hit> first_hit(size_t scanned) const;
  size_t possible_prefix() const;

  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;  // a tail that could be the beginning of a stop string
  std::optional<size_t> found_;
};

}  // namespace baton
