#include "text/output_tags.h"

#include <algorithm>

namespace baton {

bool OutputTags::is_token(OutputTag tag) const {
  return std::any_of(
      tokens.begin(), tokens.end(), [tag](const auto& entry) { return entry.second == tag; });
}

TagScanner::TagScanner(const OutputTags& tags) {
  for (OutputTag tag = 0; tag < tags.texts.size(); ++tag) {
    if (!tags.is_token(tag)) searched_.push_back({tag, tags.texts[tag]});
  }
}

const TagScanner::Searched* TagScanner::tag_at(std::string_view text) const {
  const auto found = std::find_if(searched_.begin(), searched_.end(), [text](const Searched& tag) {
    return text.starts_with(tag.text);
  });
  return found == searched_.end() ? nullptr : &*found;
}

bool TagScanner::could_become_tag(std::string_view text) const {
  return std::any_of(searched_.begin(), searched_.end(), [text](const Searched& tag) {
    return tag.text.size() > text.size() && tag.text.starts_with(text);
  });
}

void TagScanner::push(std::string_view text, const OnText& on_text, const OnTag& on_tag) {
  held_.append(text);
  size_t begin = 0;  // of the text not yet given out
  size_t at = 0;
  const std::string_view all = held_;
  while ((at = all.find('<', at)) != std::string_view::npos) {
    const std::string_view rest = all.substr(at);
    if (const Searched* found = tag_at(rest)) {
      if (at > begin) on_text(all.substr(begin, at - begin));
      on_tag(found->tag);
      at += found->text.size();
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
