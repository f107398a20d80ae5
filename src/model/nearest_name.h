// The nearest of several names to a misspelt one, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Levenshtein distance, in bytes; stops counting at `limit` (then returns limit).
int edit_distance(std::string_view a, std::string_view b, int limit);

// The candidate nearest to `name`, or an empty string when none is within a third of its length.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace baton
