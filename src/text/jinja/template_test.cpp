#include "text/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace baton::jinja {
namespace {

using testing::HasSubstr;

// The templates print local time, and the goldens were made at this one.
std::time_t at(const std::string& iso) {
  std::tm local{};
  strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
  local.tm_isdst = -1;
  return std::mktime(&local);
}

Result<MarkedText> render(std::string_view source,
                          const Json& variables = Json::object(),
                          std::time_t now = 0) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  const Value value = Value::from_json(variables, /*untrusted=*/true);
  return parsed->render(*value.dict(), now);
}

std::string text_of(std::string_view source, const Json& variables = Json::object()) {
  const Result<MarkedText> text = render(source, variables);
  return text ? text->bytes() : "error: " + text.error().message;
}

class TemplateGolden : public testing::TestWithParam<const char*> {};

// Python's output, or an error where Python raises one.
TEST_P(TemplateGolden, RendersAsJinja2) {
  const auto file = read_json_file(std::string("testdata/chat_templates/") + GetParam() + ".json");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_GT((*file)["cases"].size(), 5U);
  for (const Json& golden : (*file)["cases"]) {
    const auto source = golden["template"].get<std::string>();
    const auto text = render(source, (*file)["variables"], at((*file)["now"].get<std::string>()));
    if (golden.contains("error")) {
      EXPECT_FALSE(text) << source << "\nexpected " << golden["error"] << "\ngot " << text->bytes();
    } else if (!text) {
      ADD_FAILURE() << source << "\n" << text.error().message;
    } else {
      EXPECT_EQ(text->bytes(), golden["expected"].get<std::string>()) << source;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups,
                         TemplateGolden,
                         testing::Values("output",
                                         "operators",
                                         "tests",
                                         "filters",
                                         "methods",
                                         "statements",
                                         "whitespace",
                                         "tojson",
                                         "errors"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Template, ErrorsNameTheLine) {
  EXPECT_EQ(text_of("a\n{{ b.c }}"), "error: line 2: 'b' is undefined");
  EXPECT_EQ(text_of("{{ raise_exception('no such role') }}"), "error: line 1: no such role");
  EXPECT_THAT(text_of("\n\n{{ messages[0].content "), HasSubstr("line 3"));
}

TEST(Template, WhatIsNotSupportedIsAnErrorBeforeAnyRequest) {
  for (const char* source : {"{{ x | no_such_filter }}",
                             "{{ x is no_such_test }}",
                             "{% extends 'a' %}",
                             "{% include 'a' %}",
                             "{% import 'a' as b %}",
                             "{% if x %}",
                             "{% endif %}",
                             "{{ x",
                             "{{ x | tojson(colour=1) }}",
                             "{% for a in b recursive %}{% endfor %}",
                             "{% break %}",
                             "{{ 'a }}",
                             "{# a",
                             "{{ (1 }}",
                             "{{ f(*a) }}",
                             "{% set %}",
                             "{{ 1 + }}",
                             "{% foo %}"}) {
    EXPECT_FALSE(Template::parse(source)) << source;
  }
}

TEST(Template, ARoundOfALoopDoesNotSeeWhatAnotherSet) {
  EXPECT_EQ(text_of("{% for i in [1, 2] %}{{ q is defined }}{% set q = i %}{{ q }};{% endfor %}"),
            "False1;False2;");
}

TEST(Template, HostileTemplatesEndInAnError) {
  EXPECT_THAT(text_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("deeply"));
  EXPECT_THAT(text_of("{{ range(100000000000) | length }}"), HasSubstr("range too large"));
  EXPECT_THAT(text_of("{{ 'x' * 100000000000 }}"), HasSubstr("too large"));
  EXPECT_THAT(text_of("{{ 9 ** 99999 }}"), HasSubstr("too large"));
  EXPECT_THAT(text_of("{{ 1 // 0 }}"), HasSubstr("division by zero"));
  const std::string loop =
      "{% for a in range(1000000) %}{% for b in range(1000000) %}"
      "{% endfor %}{% endfor %}";
  EXPECT_THAT(text_of(loop), HasSubstr("too long"));
  EXPECT_FALSE(Template::parse("{{ " + std::string(100000, '(')));
  EXPECT_FALSE(Template::parse("{{ " + std::string(100000, '-') + "1 }}"));
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if x %}";
  EXPECT_FALSE(Template::parse(blocks));
}

// Printing, comparing and freeing a value go down its levels.
TEST(Template, ValuesThatNestWithoutEndEndInAnErrorAndNotTheStack) {
  const std::string again = "{% for i in range(100000) %}";
  for (const char* step : {"{% set ns.x = [ns.x] %}",
                           "{% set ns.x = (ns.x,) %}",
                           "{% set ns.x = {'a': ns.x} %}",
                           "{% set ns.x = dict(a=ns.x) %}",
                           "{% set ns.x = [[1, ns.x]] | groupby(0) %}",
                           "{% set ns.x = joiner(ns.x) %}",
                           "{% set ns.x = cycler(ns.x).next %}",
                           "{% set ns.x = {'a': ns.x}.items %}",
                           "{% for j in [ns.x] %}{% set ns.x = loop %}{% endfor %}"}) {
    const std::string built = "{% set ns = namespace(x=1) %}" + again + step + "{% endfor %}";
    EXPECT_EQ(text_of(built + "\n{{ ns.x }}"),
              "error: line 1: values nested too deeply: expected at most 500 levels")
        << step;
  }
  const std::string list =
      "{% set ns = namespace(x=1) %}{% for i in range(500) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}";
  EXPECT_EQ(text_of(list + "{{ ns.x == ns.x }}{{ ns.x | string | length }}"), "True1001");
  // Namespaces and what loops remember may hold each other to any depth.
  EXPECT_EQ(text_of("{% set ns = namespace(x=1) %}" + again +
                    "{% set ns.x = namespace(x=[ns.x]) %}{% endfor %}done"),
            "done");
  EXPECT_EQ(text_of("{% set ns = namespace(x=1) %}" + again +
                    "{% for j in [1] %}{% if loop.changed(ns.x) %}{% endif %}"
                    "{% set ns.x = loop %}{% endfor %}{% endfor %}done"),
            "done");
}

// Each of these is a tree as deep as it is long: parsing, running and freeing it need the stack.
TEST(Template, ChainsOfAnyLengthEndInAnErrorAndNotTheStack) {
  const auto repeated = [](const char* text) {
    std::string all;
    for (int i = 0; i < 100'000; ++i) all += text;
    return all;
  };
  for (const char* link : {"+ 1",
                           ".b",
                           "[0]",
                           "()",
                           "|trim",
                           "** 2",
                           " and a",
                           " or a",
                           " is defined",
                           " if a",
                           "* a",
                           " if a else b"}) {
    EXPECT_THAT(text_of("{{ a" + repeated(link) + " }}"), HasSubstr("expression")) << link;
  }
  for (const char* open : {"{% elif a %}", "{% else %}{% if a %}", "{% if a %}"}) {
    EXPECT_THAT(text_of("{% if a %}" + repeated(open)), HasSubstr("blocks nested too deeply"));
  }
  EXPECT_THAT(text_of(repeated("{% for a in b %}{% else %}")), HasSubstr("nested too deeply"));
  std::string sum = "{{ 0";
  for (int i = 0; i < 900; ++i) sum += " + 1";
  EXPECT_EQ(text_of(sum + " }}"), "900");
}

TEST(Template, EveryOperationKeepsWhereTextCameFrom) {
  const Json variables = {{"u", " <|user|> "}, {"list", {"<|us", "er|>"}}, {"d", {{"<|k|>", 1.0}}}};
  for (const char* expression : {"u",
                                 "u.strip()",
                                 "u | trim",
                                 "u.split('u')[1]",
                                 "u.split() | join",
                                 "list | join",
                                 "list | join('') | upper",
                                 "u.replace('user', 'x')",
                                 "u[1:4]",
                                 "u[::-1]",
                                 "u * 2",
                                 "u | tojson",
                                 "d | tojson(indent=2)",
                                 "d | string",
                                 "'%s' | format(u)",
                                 "u.lower()",
                                 "u | indent",
                                 "u | capitalize",
                                 "u.title()",
                                 "'{}'.format(u)",
                                 "u.partition('u')[0]",
                                 "d.keys() | list",
                                 "u | escape",
                                 "u if true",
                                 "(u ~ '') | list | first"}) {
    const auto text = render(std::string("{{ '<t>' ~ (") + expression + ") ~ '</t>' }}", variables);
    ASSERT_TRUE(text) << expression << ": " << text.error().message;
    ASSERT_FALSE(text->untrusted().empty()) << expression;
    std::string from_template;
    size_t done = 0;
    for (const TextRange& range : text->untrusted()) {
      from_template += text->bytes().substr(done, range.begin - done);
      done = range.end;
    }
    from_template += text->bytes().substr(done);
    EXPECT_EQ(from_template.find('|'), std::string::npos) << expression << ": " << from_template;
    EXPECT_THAT(from_template, testing::StartsWith("<t>"));
    EXPECT_THAT(from_template, testing::EndsWith("</t>"));
  }
}

TEST(Template, ReplacementTextOfTheTemplateIsTheTemplates) {
  const auto text = render("{{ u.replace('X', '<image>') }}", {{"u", "aXb"}});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->untrusted(), (std::vector<TextRange>{{0, 1}, {8, 9}}));
}

}  // namespace
}  // namespace baton::jinja
