// A parsed chat template. Immutable; any thread may render.
//
// The language is Jinja2 as Hugging Face sets it up for chat templates: trim_blocks,
// lstrip_blocks, loop controls, {% generation %}, tojson as json.dumps, no HTML escaping.
// Left out, as an error when the template is loaded: inheritance, include, import, recursive
// loops, * and ** arguments, and filters and tests that no chat template uses.
#pragma once

#include <ctime>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace baton::jinja {

struct Program;

class Template {
 public:
  // Errors are "line N: ...".
  static Result<Template> parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // What raise_exception says is an error too. `now` is for strftime_now.
  Result<MarkedText> render(const Dict& variables, std::time_t now) const;

 private:
  explicit Template(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace baton::jinja
