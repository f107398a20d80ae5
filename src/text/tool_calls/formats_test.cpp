// What every format of tool calls has to do, over all of them.
#include "text/tool_calls/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/tool_calls/cut_output.h"

namespace baton {
namespace {

std::string json_call(const std::string& name, const Json& arguments) {
  return R"({"name": ")" + name + R"(", "arguments": )" + arguments.dump() + "}";
}

std::string raw_or_json(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A format as its models write it, by the examples that are published with them.
struct Written {
  std::string format;
  std::string (*call)(const std::string& name, const Json& arguments);
  std::string before, between, after;  // of all calls of an answer
  bool raw_strings;                    // values are not escaped

  std::string answer(const std::vector<std::string>& calls) const {
    std::string text = before;
    for (const std::string& one : calls) text += (&one == &calls[0] ? "" : between) + one;
    return text + after;
  }
};

const std::vector<Written>& all_formats() {
  static const std::vector<Written> kAll = {
      {"glm47",
       [](const std::string& name, const Json& arguments) {
         std::string text = "<tool_call>" + name;
         for (const auto& [key, value] : arguments.items()) {
           text +=
               "<arg_key>" + key + "</arg_key><arg_value>" + raw_or_json(value) + "</arg_value>";
         }
         return text + "</tool_call>";
       },
       "",
       "",
       "",
       true},
      {"glm45",
       [](const std::string& name, const Json& arguments) {
         std::string text = "<tool_call>" + name + "\n";
         for (const auto& [key, value] : arguments.items()) {
           text += "<arg_key>" + key + "</arg_key>\n<arg_value>" + raw_or_json(value) +
                   "</arg_value>\n";
         }
         return text + "</tool_call>";
       },
       "",
       "\n",
       "\n",
       true},
      {"hermes",
       [](const std::string& name, const Json& arguments) {
         return "<tool_call>\n" + json_call(name, arguments) + "\n</tool_call>";
       },
       "",
       "\n",
       "",
       false},
      {"qwen3_coder",
       [](const std::string& name, const Json& arguments) {
         std::string text = "<tool_call>\n<function=" + name + ">\n";
         for (const auto& [key, value] : arguments.items()) {
           text += "<parameter=" + key + ">\n" + raw_or_json(value) + "\n</parameter>\n";
         }
         return text + "</function>\n</tool_call>";
       },
       "",
       "\n",
       "",
       true},
      {"deepseek_v3",
       [](const std::string& name, const Json& arguments) {
         return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" +
                arguments.dump() + "\n```<｜tool▁call▁end｜>";
       },
       "<｜tool▁calls▁begin｜>",
       "\n",
       "<｜tool▁calls▁end｜>",
       false},
      {"deepseek_v31",
       [](const std::string& name, const Json& arguments) {
         return "<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + arguments.dump() +
                "<｜tool▁call▁end｜>";
       },
       "<｜tool▁calls▁begin｜>",
       "",
       "<｜tool▁calls▁end｜>",
       false},
      {"deepseek_v32",
       [](const std::string& name, const Json& arguments) {
         std::string text = "<｜DSML｜invoke name=\"" + name + "\">\n";
         for (const auto& [key, value] : arguments.items()) {
           text += "<｜DSML｜parameter name=\"" + key + "\" string=\"" +
                   (value.is_string() ? "true" : "false") + "\">" + raw_or_json(value) +
                   "</｜DSML｜parameter>\n";
         }
         return text + "</｜DSML｜invoke>";
       },
       "<｜DSML｜function_calls>\n",
       "\n",
       "\n</｜DSML｜function_calls>",
       true},
  };
  return kAll;
}

class ToolCalls : public testing::TestWithParam<Written> {
 protected:
  static OutputParserOptions offering(const std::string& name, const std::string& schema = "{}") {
    OutputParserOptions options = options_for(GetParam().format);
    options.tools.emplace_back(name, Json::parse(schema));
    return options;
  }
  static std::string one_call(const std::string& name, const Json& arguments) {
    return GetParam().answer({GetParam().call(name, arguments)});
  }
  // What the options' format puts between content and calls.
  static std::string separator() {
    return std::string(find_tool_call_format(GetParam().format)->syntax().separator);
  }
};

TEST_P(ToolCalls, TC01_ACallWithoutArgumentsIsAnEmptyObject) {
  const Output out =
      parse_all_cuts(one_call("get_current_time", Json::object()), offering("get_current_time"));
  EXPECT_EQ(out.names, std::vector<std::string>{"get_current_time"});
  ASSERT_EQ(out.arguments.size(), 1U);
  EXPECT_EQ(Json::parse(out.arguments[0]), Json::object());
  EXPECT_EQ(out.content, "");
  EXPECT_EQ(out.closed, 1);
  EXPECT_FALSE(out.unknown);
}

TEST_P(ToolCalls, TC02_ArgumentsAreTheSameForEveryCut) {
  const Json arguments = {{"path", "/home/u/a b.txt"}, {"body", "line1\n\"q\" \\ {x} }] é\n"}};
  const Output out = parse_all_cuts(
      one_call("write_file", arguments),
      offering("write_file",
               R"({"properties":{"path":{"type":"string"},"body":{"type":"string"}}})"));
  ASSERT_EQ(out.arguments.size(), 1U);
  EXPECT_EQ(Json::parse(out.arguments[0]), arguments);
  EXPECT_EQ(out.closed, 1);
}

TEST_P(ToolCalls, TC05_ACallCutOffAnywhereIsNotClosedAndLosesNothing) {
  const std::string text = one_call("write", {{"body", "half a payload"}, {"n", 12}});
  const OutputParserOptions options =
      offering("write", R"({"properties":{"body":{"type":"string"},"n":{"type":"integer"}}})");
  for (size_t end = 0; end < text.size(); end = next_border(text, end + 1)) {
    const Output out = parse({text.substr(0, end)}, options);
    if (out.closed > 0) {
      EXPECT_EQ(Json::parse(out.arguments[0]), Json::parse(R"({"body":"half a payload","n":12})"));
      continue;
    }
    std::string all = out.content;
    for (size_t i = 0; i < out.names.size(); ++i) all += out.names[i] + out.arguments[i];
    for (const std::string word : {"write", "body", "half", "payload", "12"}) {
      if (text.find(word) + word.size() <= end) {
        EXPECT_NE(all.find(word), std::string::npos) << word << " of " << text.substr(0, end);
      }
    }
  }
}

TEST_P(ToolCalls, TC12_ValuesHaveTheTypesOfTheSchema) {
  const Json arguments = Json::parse(R"({"n":10,"r":0.5,"s":true,"c":null,"t":[],"o":{"a":[1,{}]},
                                         "q":"10","z":"01234","e":2})");
  const Output out =
      parse_all_cuts(one_call("f", arguments),
                     offering("f", R"({"properties":{"n":{"type":"integer"},"r":{"type":"number"},
          "s":{"type":"boolean"},"c":{"type":["string","null"]},"t":{"type":"array"},
          "o":{"type":"object"},"q":{"type":"string"},"z":{"type":"string"},"e":{"enum":[1,2]}}})"));
  EXPECT_EQ(Json::parse(out.arguments.at(0)), arguments);
}

TEST_P(ToolCalls, TC14_ValuesAreNeitherEscapedNorUnescaped) {
  for (const std::string value :
       {"if a &lt; b &amp;&amp; c &gt; d: print(\"&#39;\")",
        "if a < b && c > d: print('\\n')",
        "<b>not a tag</b> <think>neither</think> </arg_key> ```",
        "<tool_call>quoted</tool_call> <function=x> </parameter> x",
        "<｜tool▁call▁end｜> </｜DSML｜invoke> <｜DSML｜parameter name=\"k\""}) {
    const Output out = parse_all_cuts(one_call("f", {{"v", value}}),
                                      offering("f", R"({"properties":{"v":{"type":"string"}}})"));
    ASSERT_EQ(out.arguments.size(), 1U) << value;
    EXPECT_EQ(Json::parse(out.arguments[0]).at("v"), value);
    EXPECT_EQ(out.closed, 1);
  }
}

TEST_P(ToolCalls, TC15_ManyByteCharactersSurviveEveryCut) {
  for (size_t prefix = 0; prefix <= 6; ++prefix) {
    const std::string value = std::string(prefix, 'a') + "ÄÖÜäöüß你好🦀\n\nÄÖÜ";
    const Output out = parse_all_cuts(one_call("f", {{"v", value}}),
                                      offering("f", R"({"properties":{"v":{"type":"string"}}})"));
    EXPECT_EQ(Json::parse(out.arguments.at(0)).at("v"), value);
  }
}

TEST_P(ToolCalls, TC16_ParallelCallsHaveTheirOwnIndicesAndNoContentBetween) {
  OutputParserOptions options = offering("add", R"({"properties":{"a":{"type":"integer"}}})");
  options.tools.emplace_back("get_weather",
                             Json::parse(R"({"properties":{"city":{"type":"string"}}})"));
  const std::string calls = GetParam().answer(
      {GetParam().call("add", {{"a", 2}}), GetParam().call("get_weather", {{"city", "Tokyo"}})});
  const Output out = parse_all_cuts("Now.\n" + separator() + calls, options);
  EXPECT_EQ(out.names, (std::vector<std::string>{"add", "get_weather"}));
  ASSERT_EQ(out.arguments.size(), 2U);
  EXPECT_EQ(Json::parse(out.arguments[0]), Json::parse(R"({"a":2})"));
  EXPECT_EQ(Json::parse(out.arguments[1]), Json::parse(R"({"city":"Tokyo"})"));
  EXPECT_EQ(out.content, "Now.\n");
  EXPECT_EQ(out.closed, 2);
}

// A step of several tokens can bring the name and all arguments at once (sglang#18236).
TEST_P(ToolCalls, TC18_NameAndArgumentsInOneStepAreBothThere) {
  OutputParser parser(offering("f"));
  const OutputDelta delta = parser.text(one_call("f", {{"a", 1}}));
  ASSERT_EQ(delta.tool_calls.size(), 1U);
  EXPECT_EQ(delta.tool_calls[0].name, "f");
  EXPECT_EQ(Json::parse(delta.tool_calls[0].arguments), Json::parse(R"({"a":1})"));
}

TEST_P(ToolCalls, TC20_ReasoningIsSplitOffWhetherOrNotThePromptOpenedIt) {
  OutputParserOptions options = offering("f");
  const std::string text = "\nplan\n</think>\n\n" + one_call("f", Json::object());
  const Output closed_early = parse_all_cuts("<think>" + text, options);
  options.begins_in_reasoning = true;
  const Output opened = parse_all_cuts(text, options);
  EXPECT_EQ(opened, closed_early);
  EXPECT_EQ(opened.reasoning, "\nplan\n");
  EXPECT_EQ(opened.content, "");
  EXPECT_EQ(opened.names, std::vector<std::string>{"f"});
}

TEST_P(ToolCalls, TC21_ACallInsideReasoningIsNotACall) {
  const std::string call = one_call("x", {{"a", 1}});
  const Output out = parse_all_cuts("<think>I will " + call + " now</think>done", offering("x"));
  EXPECT_TRUE(out.names.empty());
  EXPECT_EQ(out.reasoning, "I will " + call + " now");
  EXPECT_EQ(out.content, "done");
}

TEST_P(ToolCalls, TC26_AnUnknownToolIsPassedOnAndMarked) {
  const Output out = parse_all_cuts(one_call("rm_rf", {{"p", "/"}}), offering("read_file"));
  EXPECT_EQ(out.names, std::vector<std::string>{"rm_rf"});
  EXPECT_EQ(Json::parse(out.arguments.at(0)), Json::parse(R"({"p":"/"})"));
  EXPECT_TRUE(out.unknown);
}

TEST_P(ToolCalls, TC30_ACallIsSentWhileItIsWritten) {
  OutputParser parser(offering("f", R"({"properties":{"body":{"type":"string"}}})"));
  const std::string value(400, 'w');
  const std::string text = one_call("f", {{"body", value}});
  size_t deltas = 0, named_at = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = next_border(text, at + 1);
    const OutputDelta delta = parser.text(text.substr(at, end - at));
    at = end;
    if (delta.tool_calls.empty()) continue;
    ++deltas;
    if (!delta.tool_calls[0].name.empty()) named_at = at;
  }
  EXPECT_GE(deltas, value.size());
  EXPECT_LT(named_at, text.find('w'));
}

TEST_P(ToolCalls, WithoutToolsCallsStayInTheContent) {
  OutputParserOptions options = offering("f");
  options.calls = nullptr;
  const std::string text = " a \n" + one_call("f", {{"k", "v"}}) + " b\n";
  EXPECT_EQ(parse_all_cuts(text, options).content, text);
}

TEST_P(ToolCalls, HostileOutputIsReadAlikeForEveryCutAndLosesNoText) {
  std::vector<std::string> parts = {"{",
                                    "}",
                                    "[",
                                    "\"",
                                    ",",
                                    ":",
                                    "\\",
                                    "\n",
                                    " ",
                                    "<",
                                    ">",
                                    "```json",
                                    "```",
                                    "name=\"",
                                    "\">",
                                    "\" string=\"true\">",
                                    "\" string=\"false\">",
                                    "{\"name\": \"",
                                    "\", \"arguments\": {",
                                    "<think>",
                                    "</think>",
                                    "function",
                                    "true",
                                    "12"};
  const OutputParserOptions options = offering("w1");
  for (const std::string_view tag : options.calls->tags)
    parts.insert(parts.end(), 4, std::string(tag));
  std::mt19937 random(17);
  const auto pick = [&random](size_t below) { return random() % below; };
  for (int round = 0; round < 1500; ++round) {
    std::string text;
    std::vector<std::string> pieces, words;
    for (size_t i = 0; i < 24; ++i) {
      std::string part = parts[pick(parts.size())];
      if (pick(3) == 0) {
        words.push_back(std::string("w").append(std::to_string(i)).append("w"));
        part = words.back();
      }
      text += part;
      if (pieces.empty() || pick(2) == 0) pieces.emplace_back();
      pieces.back() += part;
    }
    const Output whole = parse({text}, options);
    EXPECT_EQ(parse(pieces, options), whole) << text;
    std::vector<std::string> characters;
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_border(text, at + 1);
      characters.push_back(text.substr(at, end - at));
      at = end;
    }
    EXPECT_EQ(parse(characters, options), whole) << text;
    std::string all = whole.reasoning + whole.content;
    for (size_t i = 0; i < whole.names.size(); ++i) all += whole.names[i] + whole.arguments[i];
    for (const std::string& word : words) {
      EXPECT_NE(all.find(word), std::string::npos) << word << " of " << text;
    }
    const auto valid = std::count_if(whole.arguments.begin(),
                                     whole.arguments.end(),
                                     [](const std::string& json) { return Json::accept(json); });
    EXPECT_LE(whole.closed, valid) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(AllFormats,
                         ToolCalls,
                         testing::ValuesIn(all_formats()),
                         [](const auto& format) { return format.param.format; });

TEST(ToolCallFormats, EveryNameOfTheTableIsTested) {
  for (const ToolCallFormat& format : tool_call_formats()) {
    EXPECT_TRUE(std::any_of(all_formats().begin(),
                            all_formats().end(),
                            [&](const Written& written) { return written.format == format.name; }))
        << format.name;
    EXPECT_EQ(find_tool_call_format(format.name), &format);
  }
  EXPECT_EQ(find_tool_call_format("nobody"), nullptr);
}

// --- what is particular to one format -----------------------------------------------------------

Output read(const std::string& format, const std::string& text, const std::string& schema = "{}") {
  OutputParserOptions options = options_for(format);
  options.tools.emplace_back("f", Json::parse(schema));
  return parse_all_cuts(text, options);
}

TEST(Hermes, TakesTheNameBehindTheArgumentsToo) {
  const Output out =
      read("hermes",
           R"(<tool_call>{"arguments": {"c": "</tool_call>", "n": [1]}, "name": "f"}</tool_call>)");
  EXPECT_EQ(out.names, std::vector<std::string>{"f"});
  EXPECT_EQ(Json::parse(out.arguments.at(0)), Json::parse(R"({"c": "</tool_call>", "n": [1]})"));
  EXPECT_EQ(read("hermes", R"(<tool_call>{"name": "f"}</tool_call>)").arguments,
            std::vector<std::string>{"{}"});
}

TEST(Hermes, WhatIsNoCallIsContent) {
  for (const std::string text : {"<tool_call></tool_call>",
                                 "<tool_call>\nnot JSON\n</tool_call>",
                                 "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
                                 "<tool_call>{\"name\": \" \", \"arguments\": {}}</tool_call>",
                                 "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
                                 "<tool_call>{\"name\": \"f\", \"argu",
                                 "</tool_call>"}) {
    const Output out = read("hermes", text);
    EXPECT_EQ(out.content, text);
    EXPECT_TRUE(out.names.empty()) << text;
  }
}

TEST(Hermes, ABrokenCallIsNotClosedAndItsRestIsContent) {
  const Output broken =
      read("hermes", R"(<tool_call>{"name": "f", "arguments": {"a": 1,, "b": 2}}</tool_call>x)");
  EXPECT_EQ(broken.arguments, std::vector<std::string>{R"({"a": 1,)"});
  EXPECT_EQ(broken.content, R"(, "b": 2}}x)");
  EXPECT_EQ(broken.closed, 0);
  // The last brace of the wrapper may be missing: the call itself is complete.
  EXPECT_EQ(read("hermes", R"(<tool_call>{"name": "f", "arguments": {}</tool_call>)").closed, 1);
}

TEST(QwenCoder, OneNewlineOnEachSideBelongsToTheFormat) {
  const std::string schema = R"({"properties":{"s":{"type":"string"},"n":{"type":"integer"}}})";
  const auto call = [&](const std::string& value) {
    return read("qwen3_coder",
                "<tool_call>\n<function=f>\n<parameter=s>" + value +
                    "</parameter>\n<parameter=n>7</parameter>\n</function>\n</tool_call>",
                schema);
  };
  EXPECT_EQ(call("\n\n x \n\n").arguments.at(0), R"({"s": "\n x \n", "n": 7})");
  EXPECT_EQ(call("inline").arguments.at(0), R"({"s": "inline", "n": 7})");
  EXPECT_EQ(call("\n\n").arguments.at(0), R"({"s": "", "n": 7})");
  EXPECT_EQ(call("\na </parameter> b\n").arguments.at(0), R"({"s": "a </parameter> b", "n": 7})");
}

TEST(DeepSeek, AFunctionMayBeCalledFunction) {
  const Output out =
      read("deepseek_v31",
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{\"a\": 1}"
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  EXPECT_EQ(out.names, std::vector<std::string>{"function"});
  EXPECT_EQ(out.arguments, std::vector<std::string>{"{\"a\": 1}"});
}

TEST(DeepSeek, WhatIsNoCallIsContent) {
  for (const std::string body : {"f<｜tool▁sep｜>no object",
                                 "function<｜tool▁sep｜>two\nlines\n```json\n{}\n```",
                                 "f",
                                 "<｜tool▁sep｜>{}"}) {
    const std::string call = "<｜tool▁call▁begin｜>" + body + "<｜tool▁call▁end｜>";
    const Output out =
        read("deepseek_v3", "<｜tool▁calls▁begin｜>" + call + "<｜tool▁calls▁end｜>");
    EXPECT_EQ(out.content, call);
    EXPECT_TRUE(out.names.empty());
  }
  const std::string outside = "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>";
  EXPECT_EQ(read("deepseek_v3", outside).content, outside);
}

TEST(Dsml, AnAttributeSaysWhatIsText) {
  const auto value = [](const std::string& is_string, const std::string& text) {
    const Output out = read("deepseek_v32",
                            "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter "
                            "name=\"k\" string=\"" +
                                is_string + "\">" + text +
                                "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>");
    EXPECT_EQ(out.closed, 1);
    return out.arguments.at(0);
  };
  EXPECT_EQ(value("true", "12"), R"({"k": "12"})");
  EXPECT_EQ(value("false", "12"), R"({"k": 12})");
  EXPECT_EQ(value("false", " [1, 1e5] "), R"({"k": [1, 1e5]})");
  EXPECT_EQ(value("false", "\"text\""), R"({"k": "text"})");
  EXPECT_EQ(value("false", "no JSON"), R"({"k": "no JSON"})");
}

TEST(Dsml, WhatIsNoCallIsContent) {
  const std::string block = "<｜DSML｜function_calls>", end = "</｜DSML｜function_calls>";
  EXPECT_EQ(read("deepseek_v32", block + "stray" + end).content, "stray");
  const std::string unnamed = "<｜DSML｜invoke>\n</｜DSML｜invoke>";
  EXPECT_TRUE(read("deepseek_v32", block + unnamed + end).names.empty());
  EXPECT_EQ(read("deepseek_v32", block + "<｜DSML｜invoke name=\"cut").content,
            "<｜DSML｜invoke name=\"cut");
  const std::string outside = "<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>";
  EXPECT_EQ(read("deepseek_v32", outside).content, outside);
}

}  // namespace
}  // namespace baton
