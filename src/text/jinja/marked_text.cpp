#include "text/jinja/marked_text.h"

#include <algorithm>

namespace baton::jinja {

MarkedText::MarkedText(std::string bytes, bool untrusted) : bytes_(std::move(bytes)) {
  if (untrusted) mark(0, bytes_.size());
}

void MarkedText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!untrusted_.empty() && untrusted_.back().end == begin) {
    untrusted_.back().end = end;
  } else {
    untrusted_.push_back({begin, end});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  const size_t offset = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (const TextRange& range : other.untrusted_) {
    const size_t from = std::max(range.begin, begin);
    const size_t to = std::min(range.end, end);
    if (from < to) mark(offset + from - begin, offset + to - begin);
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

MarkedText MarkedText::transform(const std::function<std::string(std::string_view)>& map) const {
  MarkedText out;
  size_t done = 0;
  const auto add = [&](size_t begin, size_t end, bool untrusted) {
    if (begin == end) return;
    out.append(MarkedText(map(view().substr(begin, end - begin)), untrusted));
  };
  for (const TextRange& range : untrusted_) {
    add(done, range.begin, false);
    add(range.begin, range.end, true);
    done = range.end;
  }
  add(done, size(), false);
  return out;
}

}  // namespace baton::jinja
