// One compiled regular expression of a pre-tokenizer (PCRE2 with JIT, UTF and Unicode classes).
// tokenizer.json is written for Oniguruma; what the two read differently is refused at load.
// Immutable; any thread. Each thread matches with its own Scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

class SplitPattern {
 public:
  struct Span {
    size_t begin;
    size_t end;
  };

  // What one thread needs while matching: match data and a JIT stack.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class SplitPattern;
    struct State;
    std::unique_ptr<State> state_;
  };

  // `literal`: the pattern is plain text. Errors carry PCRE2's message and the offset.
  static Result<SplitPattern> compile(const std::string& pattern, bool literal);

  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // The next non-empty match at or after `from`, or an empty span at the end of `text` if there
  // is none. `text` must be valid UTF-8.
  Span find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  struct Code;
  explicit SplitPattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace baton
