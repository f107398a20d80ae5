#include "text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace baton {
namespace {

// Enough for the known patterns on runs of megabytes; memory is reserved, not touched.
constexpr size_t kJitStackStartBytes = size_t{32} << 10U;
constexpr size_t kJitStackLimitBytes = size_t{64} << 20U;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// Oniguruma reads && inside a class as an intersection and [ as a nested class; PCRE2 takes both
// as plain characters. Returns the construct, or an empty view.
std::string_view construct_read_differently(std::string_view pattern) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (!in_class) {
      in_class = c == '[';
      // A ] right after [ or [^ is a plain character in both.
      if (in_class && pattern.substr(i + 1, 1) == "^") ++i;
      if (in_class && pattern.substr(i + 1, 1) == "]") ++i;
    } else if (c == ']') {
      in_class = false;
    } else if (c == '&' && pattern.substr(i + 1, 1) == "&") {
      return "&& inside a character class";
    } else if (c == '[') {
      return "[ inside a character class";
    }
  }
  return {};
}

}  // namespace

struct SplitPattern::Scratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack =
      pcre2_jit_stack_create(kJitStackStartBytes, kJitStackLimitBytes, nullptr);

  State() {
    BATON_CHECK(data != nullptr && context != nullptr && stack != nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    // High enough for the known patterns on the longest texts, and an end, after seconds, for one
    // that backtracks without.
    pcre2_set_match_limit(context, 1'000'000'000);
    pcre2_set_depth_limit(context, std::numeric_limits<uint32_t>::max());
  }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

SplitPattern::Scratch::Scratch() : state_(std::make_unique<State>()) {}
SplitPattern::Scratch::~Scratch() = default;

struct SplitPattern::Code {
  pcre2_code* code = nullptr;
  bool has_jit = false;
  ~Code() { pcre2_code_free(code); }
};

SplitPattern::SplitPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::compile(const std::string& pattern, bool literal) {
  if (!literal) {
    const std::string_view construct = construct_read_differently(pattern);
    if (!construct.empty()) {
      return unsupported("pattern '" + pattern + "': " + std::string(construct));
    }
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options =
      literal ? PCRE2_LITERAL | PCRE2_UTF : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                             pattern.size(),
                             options,
                             &error,
                             &offset,
                             nullptr);
  if (code->code == nullptr) {
    return unsupported("pattern '" + pattern + "': " + pcre2_message(error) + " at offset " +
                       std::to_string(offset));
  }
  code->has_jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  return SplitPattern(std::move(code));
}

SplitPattern::Span SplitPattern::find(std::string_view text, size_t from, Scratch& scratch) const {
  const Scratch::State& state = *scratch.state_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  // An empty match would never end the walk; the options ask for the next best match instead.
  constexpr uint32_t kOptions = PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK;
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_->has_jit) {
    found = pcre2_jit_match(
        code_->code, subject, text.size(), from, PCRE2_NOTEMPTY, state.data, state.context);
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_->code,
                        subject,
                        text.size(),
                        from,
                        kOptions | PCRE2_NO_JIT,
                        state.data,
                        state.context);
  }
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
    log_error("tokenizer.json: a pre_tokenizer pattern failed: " + pcre2_message(found) +
              "; the rest of the text is not split");
  }
  if (found < 0) return {text.size(), text.size()};
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(state.data);
  return {span[0], span[1]};
}

}  // namespace baton
