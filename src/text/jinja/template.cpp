#include "text/jinja/template.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace baton::jinja {

Template::Template(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  Result<std::unique_ptr<Program>> program = baton::jinja::parse(source);
  if (!program) return program.error();
  return Template(std::move(*program));
}

Result<MarkedText> Template::render(const Dict& variables, std::time_t now) const {
  return Interpreter(*program_, variables, now).run();
}

}  // namespace baton::jinja
