#include "text/output_tags.h"

namespace baton {
namespace {

// The tag that `text` begins with.
std::optional<OutputTag> tag_at(std::string_view text) {
  for (size_t i = 0; i < kOutputTagCount; ++i) {
    if (text.starts_with(kOutputTagTexts[i])) return static_cast<OutputTag>(i);
  }
  return std::nullopt;
}

bool could_become_tag(std::string_view text) {
  for (const std::string_view tag : kOutputTagTexts) {
    if (tag.size() > text.size() && tag.starts_with(text)) return true;
  }
  return false;
}

}  // namespace

void TagScanner::push(std::string_view text, const OnText& on_text, const OnTag& on_tag) {
  held_.append(text);
  size_t begin = 0;  // of the text not yet given out
  size_t at = 0;
  const std::string_view all = held_;
  while ((at = all.find('<', at)) != std::string_view::npos) {
    const std::string_view rest = all.substr(at);
    if (const std::optional<OutputTag> tag = tag_at(rest)) {
      if (at > begin) on_text(all.substr(begin, at - begin));
      on_tag(*tag);
      at += tag_text(*tag).size();
      begin = at;
    } else if (could_become_tag(rest)) {
      break;
    } else {
      ++at;
    }
  }
  const size_t end = at == std::string_view::npos ? all.size() : at;
  if (end > begin) on_text(all.substr(begin, end - begin));
  held_.erase(0, end);
}

void TagScanner::finish(const OnText& on_text) {
  if (!held_.empty()) on_text(held_);
  held_.clear();
}

}  // namespace baton
