#include "text/detokenizer.h"

#include <string_view>
#include <utility>

#include "text/utf8.h"

namespace baton {

std::string Detokenizer::push(std::span<const int32_t> ids) {
  std::string bytes = std::move(pending_);
  for (const int32_t id : ids) {
    if (options_.skip_special_tokens && tokenizer_->is_special(id)) continue;
    bytes += tokenizer_->token_bytes(id);
  }
  const size_t complete = bytes.size() - incomplete_utf8_tail(bytes);
  pending_ = bytes.substr(complete);
  return replace_invalid_utf8(std::string_view(bytes).substr(0, complete));
}

std::string Detokenizer::finish() {
  const std::string rest = std::move(pending_);
  pending_.clear();
  return replace_invalid_utf8(rest);
}

}  // namespace baton
