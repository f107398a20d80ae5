// Filters (x | name) and tests (x is name), as Jinja2 3.1 defines them. An unknown name is an
// error when the template is loaded.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace baton::jinja {

struct Filter {
  std::string_view name;
  std::string_view parameters;  // their names, in order, separated by spaces; "*" takes anything
  Value (*apply)(Interpreter&, const Value& input, const Arguments&);
};

struct Test {
  std::string_view name;
  bool (*holds)(Interpreter&, const Value& input, const Arguments&);
};

// Null if there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

// Whether the filter has a parameter of that name.
bool takes(const Filter& filter, std::string_view parameter);

}  // namespace baton::jinja
