#include "text/pre_tokenizer.h"

namespace baton {

void PreTokenizer::apply(size_t step,
                         std::string_view text,
                         SplitPattern::Scratch& scratch,
                         const PieceSink& sink) const {
  if (text.empty()) return;
  if (step == steps_.size()) {
    sink(text);
    return;
  }
  const Split& split = steps_[step];
  const auto emit = [&](size_t begin, size_t end, bool is_match) {
    const bool is_delimiter = is_match != split.invert;
    if (is_delimiter && split.drop_delimiters) return;
    apply(step + 1, text.substr(begin, end - begin), scratch, sink);
  };
  for (size_t position = 0; position < text.size();) {
    const SplitPattern::Span match = split.pattern.find(text, position, scratch);
    emit(position, match.begin, /*is_match=*/false);
    emit(match.begin, match.end, /*is_match=*/true);
    position = match.end;
  }
}

}  // namespace baton
