// A stretch of a byte string, [begin, end). Lists of them are sorted, disjoint and not empty.
#pragma once

#include <cstddef>

namespace baton {

struct TextRange {
  size_t begin;
  size_t end;
  bool operator==(const TextRange&) const = default;
};

}  // namespace baton
