// Methods that templates call on values: text.split(...), dict.items(), loop.cycle(...). They
// are Python's; the ones that would change a list or a dict do not exist, as in the sandbox
// that Hugging Face renders templates in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace baton::jinja {

struct Method {
  std::string_view name;
  Value (*call)(Interpreter&, const Value& self, const Arguments&);
};

// Null if values of that type have no such method.
const Method* find_method(const Value& self, std::string_view name);

// "%s is %d" % (...): %s %r %d %i %f %x and %%, with flags, width and precision.
Value percent_format(Interpreter& run, const MarkedText& format, const Arguments& arguments);

// Shared with the filters of the same names.
// `characters`: those to strip; white space if not given.
MarkedText stripped(const MarkedText& text,
                    std::optional<std::string_view> characters,
                    bool left,
                    bool right);
MarkedText replaced(const MarkedText& text,
                    std::string_view from,
                    const MarkedText& to,
                    Integer at_most);
MarkedText joined(const std::vector<Value>& items, const MarkedText& separator);
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalized(const MarkedText& text);
MarkedText title(const MarkedText& text);

}  // namespace baton::jinja
