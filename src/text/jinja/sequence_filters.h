// Filters that work on lists: map, select, join, sort and their like.
#pragma once

#include <string_view>

#include "text/jinja/filters.h"

namespace baton::jinja {

// Null if there is none.
const Filter* find_sequence_filter(std::string_view name);

}  // namespace baton::jinja
