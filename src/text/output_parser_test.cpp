#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace baton {
namespace {

struct Output {
  std::string reasoning, content;
  std::vector<std::string> names, arguments;
  int closed = 0;
  bool unknown = false;
};

void join(Output& out, const OutputDelta& delta) {
  out.reasoning += delta.reasoning;
  out.content += delta.content;
  for (const ToolCallDelta& call : delta.tool_calls) {
    const size_t index = static_cast<size_t>(call.index);
    if (index >= out.names.size()) {
      ASSERT_EQ(index, out.names.size()) << "indices must come in order";
      EXPECT_FALSE(call.name.empty()) << "the first delta of a call names it";
      out.names.push_back(call.name);
      out.arguments.emplace_back();
    } else {
      EXPECT_TRUE(call.name.empty()) << "the name comes once";
    }
    out.arguments[index] += call.arguments;
  }
}

Output parse(const std::vector<std::string>& pieces, OutputParserOptions options) {
  options.tags_are_tokens = false;
  OutputParser parser(std::move(options));
  Output out;
  for (const std::string& piece : pieces) join(out, parser.text(piece));
  join(out, parser.finish());
  out.closed = parser.closed_calls();
  out.unknown = parser.unknown_tool();
  return out;
}

bool character_border(const std::string& text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U;
}

// Parses `text` whole, then in every fixed chunk size and at every pair of cuts of a short text,
// and expects the same answer.
Output parse_all_cuts(const std::string& text, const OutputParserOptions& options) {
  const Output whole = parse({text}, options);
  const auto expect_same = [&](const std::vector<std::string>& pieces) {
    const Output cut = parse(pieces, options);
    EXPECT_EQ(cut.reasoning, whole.reasoning);
    EXPECT_EQ(cut.content, whole.content);
    EXPECT_EQ(cut.names, whole.names);
    EXPECT_EQ(cut.arguments, whole.arguments);
    EXPECT_EQ(cut.closed, whole.closed);
  };
  for (size_t size = 1; size <= 40; ++size) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      size_t end = at + size;
      while (!character_border(text, end)) ++end;
      pieces.push_back(text.substr(at, end - at));
      at = end;
    }
    expect_same(pieces);
  }
  for (size_t i = 0; i < std::min<size_t>(text.size(), 200); i += 3) {
    for (size_t j = i; j < std::min<size_t>(text.size(), 200); j += 5) {
      if (!character_border(text, i) || !character_border(text, j)) continue;
      expect_same({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
    }
  }
  return whole;
}

OutputParserOptions with_tool(const std::string& name, const std::string& schema) {
  OutputParserOptions options;
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
  OutputParserOptions inside;
  inside.begins_in_reasoning = true;
  const Output a = parse_all_cuts("plan</think>It is 20C.", inside);
  EXPECT_EQ(a.reasoning, "plan");
  EXPECT_EQ(a.content, "It is 20C.");
  const Output b = parse_all_cuts("It is 20C.", {});
  EXPECT_EQ(b.reasoning, "");
  EXPECT_EQ(b.content, "It is 20C.");
  const Output c = parse_all_cuts("<think>plan</think>It is 20C.", {});
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
  const Output open = parse_all_cuts("<think>call x", {});
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
  OutputParser parser({});
  EXPECT_EQ(parser.text("the tag <tool_call> means").content, "the tag <tool_call> means");
  EXPECT_TRUE(parser.tag(OutputTag::kCallOpen).empty());
  EXPECT_TRUE(parser.text("now").empty());
  const OutputDelta delta = parser.tag(OutputTag::kCallClose);
  ASSERT_EQ(delta.tool_calls.size(), 1U);
  EXPECT_EQ(delta.tool_calls[0].name, "now");
}

TEST(OutputParser, WithoutToolsTagsStayInTheContent) {
  OutputParserOptions options;
  options.tool_calls = false;
  const std::string text = "a <tool_call>f<arg_key>k</arg_key></tool_call> b";
  EXPECT_EQ(parse_all_cuts(text, options).content, text);
}

TEST(OutputParser, StrayTagsNeverCrash) {
  for (const std::string text : {"</tool_call></arg_value></arg_key></think>x",
                                 "<tool_call><tool_call>f</tool_call>",
                                 "<tool_call>f</arg_value><arg_value>1</tool_call>",
                                 "<tool_call></tool_call>",
                                 "<tool_call>f<arg_key><arg_key>a</arg_key></arg_key></tool_call>",
                                 "<",
                                 "</",
                                 "<tool_"}) {
    parse_all_cuts(text, with_tool("f", "{}"));
  }
}

}  // namespace
}  // namespace baton
