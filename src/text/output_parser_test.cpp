#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/tool_calls/cut_output.h"

namespace baton {
namespace {

OutputParserOptions with_tool(const std::string& name, const std::string& schema) {
  OutputParserOptions options = options_for("glm47");
  options.tools.emplace_back(name, Json::parse(schema));
  return options;
}

TEST(OutputParser, TC01_ACallWithoutArgumentsIsAnEmptyObject) {
  const Output out = parse_all_cuts("<tool_call>get_current_time</tool_call>",
                                    with_tool("get_current_time", R"({"type":"object"})"));
  EXPECT_EQ(out.names, std::vector<std::string>{"get_current_time"});
  EXPECT_EQ(out.arguments, std::vector<std::string>{"{}"});
  EXPECT_EQ(out.content, "");
}

TEST(OutputParser, TC02_ArgumentsAreTheSameForEveryCut) {
  const std::string text =
      "<tool_call>write_file<arg_key>path</arg_key><arg_value>/home/u/a b.txt</arg_value>"
      "<arg_key>body</arg_key><arg_value>line1\n\"q\" \\ {x}</arg_value></tool_call>";
  const Output out =
      parse_all_cuts(text, with_tool("write_file", R"({"properties":{"path":{"type":"string"},
                                                      "body":{"type":"string"}}})"));
  ASSERT_EQ(out.arguments.size(), 1U);
  EXPECT_EQ(Json::parse(out.arguments[0]),
            Json::parse(R"({"path":"/home/u/a b.txt","body":"line1\n\"q\" \\ {x}"})"));
}

TEST(OutputParser, TC05_ACutOffCallIsNotClosed) {
  const Output out = parse_all_cuts("<tool_call>f<arg_key>a</arg_key><arg_value>half a val",
                                    with_tool("f", R"({"properties":{"a":{"type":"string"}}})"));
  EXPECT_EQ(out.closed, 0);
  EXPECT_EQ(out.arguments, std::vector<std::string>{R"({"a": "half a val)"});
}

TEST(OutputParser, TC11_ReferencesAndUnionsGiveObjectsAndNulls) {
  const std::string schema = R"({"$defs":{"P":{"type":"object"},"Loop":{"$ref":"#/$defs/Loop"}},
      "properties":{"period":{"$ref":"#/$defs/P"},
                    "alt":{"anyOf":[{"$ref":"#/$defs/P"},{"type":"null"}]},
                    "loop":{"$ref":"#/$defs/Loop"}}})";
  const Output out = parse_all_cuts(
      "<tool_call>f<arg_key>period</arg_key><arg_value>{\"kind\":\"week\"}</arg_value>"
      "<arg_key>alt</arg_key><arg_value>null</arg_value>"
      "<arg_key>loop</arg_key><arg_value>x</arg_value></tool_call>",
      with_tool("f", schema));
  EXPECT_EQ(Json::parse(out.arguments.at(0)),
            Json::parse(R"({"period":{"kind":"week"},"alt":null,"loop":"x"})"));
}

TEST(OutputParser, TC12_ValuesHaveTheTypesOfTheSchema) {
  const std::string schema = R"({"properties":{"n":{"type":"integer"},"r":{"type":"number"},
      "s":{"type":"boolean"},"c":{"type":["string","null"]},"t":{"type":"array"},
      "o":{"type":"object"},"q":{"type":"string"},"z":{"type":"string"},"e":{"enum":[1,2]}}})";
  const std::vector<std::pair<std::string, std::string>> values{{"n", "10"},
                                                                {"r", "0.5"},
                                                                {"s", "true"},
                                                                {"c", "null"},
                                                                {"t", "[]"},
                                                                {"o", R"({"a":1})"},
                                                                {"q", "10"},
                                                                {"z", "01234"},
                                                                {"e", "2"},
                                                                {"no_schema", "7"},
                                                                {"text", "free text"}};
  std::string text = "<tool_call>f";
  for (const auto& [key, value] : values) {
    text += "<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value>";
  }
  const Output out = parse_all_cuts(text + "</tool_call>", with_tool("f", schema));
  EXPECT_EQ(Json::parse(out.arguments.at(0)),
            Json::parse(R"({"n":10,"r":0.5,"s":true,"c":null,"t":[],"o":{"a":1},"q":"10",
                            "z":"01234","e":2,"no_schema":7,"text":"free text"})"));
}

TEST(OutputParser, TC14_ValuesAreLiteralToTheirEndTag) {
  for (const std::string value : {"if a &lt; b &amp;&amp; c &gt; d: print(\"&#39;\")",
                                  "if a < b && c > d: print(\"'\")",
                                  "<b>not a tag</b> </arg_key> still <tool_call>text</think>"}) {
    const Output out = parse_all_cuts(
        "<tool_call>f<arg_key>v</arg_key><arg_value>" + value + "</arg_value></tool_call>",
        with_tool("f", R"({"properties":{"v":{"type":"string"}}})"));
    EXPECT_EQ(Json::parse(out.arguments.at(0)).at("v"), value);
  }
}

TEST(OutputParser, TC15_ManyByteCharactersSurviveEveryCut) {
  for (size_t prefix = 0; prefix <= 12; ++prefix) {
    std::string value(prefix, 'a');
    for (int i = 0; i < 3; ++i) value += "ÄÖÜäöüß你好🦀";
    const Output out = parse_all_cuts(
        "<tool_call>f<arg_key>v</arg_key><arg_value>" + value + "</arg_value></tool_call>",
        with_tool("f", R"({"properties":{"v":{"type":"string"}}})"));
    EXPECT_EQ(Json::parse(out.arguments.at(0)).at("v"), value);
  }
}

TEST(OutputParser, TC16_ParallelCallsHaveTheirOwnIndicesAndNoContentBetween) {
  OutputParserOptions options = with_tool("add", R"({"properties":{"a":{"type":"integer"}}})");
  options.tools.emplace_back("get_weather",
                             Json::parse(R"({"properties":{"city":{"type":"string"}}})"));
  const Output out = parse_all_cuts(
      "Now.<tool_call>add<arg_key>a</arg_key><arg_value>2</arg_value></tool_call>\n"
      "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Tokyo</arg_value></tool_call>\n",
      options);
  EXPECT_EQ(out.names, (std::vector<std::string>{"add", "get_weather"}));
  EXPECT_EQ(out.arguments, (std::vector<std::string>{R"({"a": 2})", R"({"city": "Tokyo"})"}));
  EXPECT_EQ(out.content, "Now.");
  EXPECT_EQ(out.closed, 2);
}

TEST(OutputParser, TC20_TheStartStateIsWhatThePromptSays) {
  OutputParserOptions inside = options_for("glm47");
  inside.begins_in_reasoning = true;
  const Output a = parse_all_cuts("plan</think>It is 20C.", inside);
  EXPECT_EQ(a.reasoning, "plan");
  EXPECT_EQ(a.content, "It is 20C.");
  const Output b = parse_all_cuts("It is 20C.", options_for("glm47"));
  EXPECT_EQ(b.reasoning, "");
  EXPECT_EQ(b.content, "It is 20C.");
  const Output c = parse_all_cuts("<think>plan</think>It is 20C.", options_for("glm47"));
  EXPECT_EQ(c.reasoning, "plan");
  EXPECT_EQ(c.content, "It is 20C.");
}

TEST(OutputParser, TC21_ACallInsideReasoningIsNotACall) {
  const Output quoted = parse_all_cuts("<think>I will call <tool_call>x</tool_call> now</think>",
                                       with_tool("x", "{}"));
  EXPECT_TRUE(quoted.names.empty());
  EXPECT_EQ(quoted.reasoning, "I will call <tool_call>x</tool_call> now");
  const Output called =
      parse_all_cuts("<think>...</think><tool_call>x</tool_call>", with_tool("x", "{}"));
  EXPECT_EQ(called.names, std::vector<std::string>{"x"});
  const Output open = parse_all_cuts("<think>call x", options_for("glm47"));
  EXPECT_EQ(open.reasoning, "call x");
  EXPECT_EQ(open.content, "");
}

TEST(OutputParser, TC26_AnUnknownToolIsPassedOnAndMarked) {
  const Output out =
      parse_all_cuts("<tool_call>rm_rf<arg_key>p</arg_key><arg_value>/</arg_value></tool_call>",
                     with_tool("read_file", "{}"));
  EXPECT_EQ(out.names, std::vector<std::string>{"rm_rf"});
  EXPECT_EQ(out.arguments, std::vector<std::string>{R"({"p": "/"})"});
  EXPECT_TRUE(out.unknown);
}

TEST(OutputParser, TagsWrittenAsOrdinaryTokensAreText) {
  OutputParserOptions options = options_for("glm47");
  for (OutputTag tag = 0; tag < options.tags.texts.size(); ++tag) {
    options.tags.tokens[static_cast<int32_t>(tag)] = tag;
  }
  OutputParser parser(options);
  EXPECT_EQ(parser.text("the tag <tool_call> means").content, "the tag <tool_call> means");
  EXPECT_TRUE(parser.tag(kFirstCallTag).empty());
  EXPECT_TRUE(parser.text("now").empty());
  const OutputDelta delta = parser.tag(kFirstCallTag + 1);
  ASSERT_EQ(delta.tool_calls.size(), 1U);
  EXPECT_EQ(delta.tool_calls[0].name, "now");
}

TEST(OutputParser, WithoutToolsTagsStayInTheContent) {
  OutputParserOptions options = options_for("glm47");
  options.calls = nullptr;
  const std::string text = "a <tool_call>f<arg_key>k</arg_key></tool_call> b";
  EXPECT_EQ(parse_all_cuts(text, options).content, text);
}

TEST(OutputParser, WhatIsNoCallIsContent) {
  const auto content = [](const std::string& text) {
    return parse_all_cuts(text, with_tool("f", "{}")).content;
  };
  for (const std::string text : {"</tool_call></arg_value></arg_key>x",
                                 "<tool_call></tool_call>",
                                 "<tool_call> </tool_call>",
                                 "<tool_call>cut_off_in_its_na",
                                 "<tool_call>",
                                 "a < b, <tool_",
                                 "<",
                                 "</"}) {
    EXPECT_EQ(content(text), text);
  }
  EXPECT_EQ(content("<tool_call><tool_call>f</tool_call>"), "<tool_call>");
  EXPECT_EQ(content("<tool_call>f<arg_key>a</arg_key></tool_call>"), "<arg_key>a</arg_key>");
  EXPECT_EQ(content("<tool_call>f<arg_key>a<arg_key>b</arg_key><arg_value>1</arg_value>stray"
                    "</tool_call>"),
            "<arg_key>astray");
  EXPECT_EQ(content("<tool_call>f<arg_key>cut"), "<arg_key>cut");
}

TEST(OutputParser, WhitespaceAroundCallsIsNoContent) {
  const std::string call = "<tool_call>f</tool_call>";
  const auto content = [](const std::string& text) {
    return parse_all_cuts(text, with_tool("f", "{}")).content;
  };
  EXPECT_EQ(content("<think>t</think>\n\n" + call + "\n" + call + "\n"), "");
  EXPECT_EQ(content("said \n" + call), "said \n");  // this format has no separator
  EXPECT_EQ(content(call + "\n\nand \n"), "\n\nand \n");
  EXPECT_EQ(content(" \n "), " \n ");
}

}  // namespace
}  // namespace baton
