// Chat and text completions over loopback: fields, forms, and that a streamed answer is the whole
// answer however the engine's deliveries are cut.
#include <gtest/gtest.h>

#include <set>

#include "server/testing/test_server.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// A chat choice put together from the answer, streamed or not.
struct Chat {
  std::string content, reasoning, finish_reason;
  Json stop_reason;
  std::vector<std::string> call_ids, call_names, call_arguments;
  std::vector<int> bytes;
  int content_chunks = 0;
  bool operator==(const Chat& other) const {
    return content == other.content && reasoning == other.reasoning &&
           finish_reason == other.finish_reason && stop_reason == other.stop_reason &&
           call_names == other.call_names && call_arguments == other.call_arguments &&
           bytes == other.bytes;
  }
};

void add_logprobs(const Json& logprobs, Chat& chat) {
  if (!logprobs.is_object()) return;
  for (const Json& token : logprobs["content"]) {
    for (const Json& byte : token["bytes"]) chat.bytes.push_back(byte.get<int>());
  }
}

void add_end(const Json& choice, Chat& chat) {
  if (choice["finish_reason"].is_null()) return;
  EXPECT_TRUE(chat.finish_reason.empty()) << "finish_reason comes once";
  chat.finish_reason = choice["finish_reason"];
  chat.stop_reason = choice["stop_reason"];
}

Chat whole_chat(const TestResponse& response, size_t index = 0) {
  Chat chat;
  EXPECT_EQ(response.status, 200) << response.body;
  if (response.status != 200) return chat;
  const Json choice = response.json()["choices"][index];
  const Json& message = choice["message"];
  if (message["content"].is_string()) chat.content = message["content"];
  chat.reasoning = message.value("reasoning_content", "");
  if (message.contains("tool_calls")) {
    for (const Json& call : message["tool_calls"]) {
      EXPECT_EQ(call["type"], "function");
      chat.call_ids.push_back(call["id"]);
      chat.call_names.push_back(call["function"]["name"]);
      chat.call_arguments.push_back(call["function"]["arguments"]);
    }
  }
  add_logprobs(choice["logprobs"], chat);
  add_end(choice, chat);
  return chat;
}

void add_call_delta(const Json& delta, Chat& chat) {
  const auto index = delta["index"].get<size_t>();
  if (index == chat.call_names.size()) {
    chat.call_ids.push_back(delta["id"]);
    EXPECT_EQ(delta["type"], "function");
    chat.call_names.push_back(delta["function"]["name"]);
    chat.call_arguments.emplace_back();
  } else {
    EXPECT_LT(index, chat.call_names.size());
    EXPECT_FALSE(delta.contains("id"));
    EXPECT_FALSE(delta["function"].contains("name"));
  }
  chat.call_arguments[index] += delta["function"].value("arguments", "");
}

Chat streamed_chat(const TestResponse& response, int index = 0) {
  Chat chat;
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  bool role = false;
  for (const Json& event : response.events()) {
    EXPECT_TRUE(event.is_object()) << event;
    if (event["choices"].empty() || event["choices"][0]["index"] != index) continue;
    const Json& choice = event["choices"][0];
    EXPECT_TRUE(chat.finish_reason.empty()) << "nothing follows the end";
    const Json& delta = choice["delta"];
    EXPECT_EQ(delta.contains("role"), !role) << "the role comes with the first chunk";
    role = true;
    const std::string content = delta.value("content", "");
    chat.content += content;
    if (!content.empty()) ++chat.content_chunks;
    chat.reasoning += delta.value("reasoning_content", "");
    if (delta.contains("tool_calls")) {
      for (const Json& call : delta["tool_calls"]) add_call_delta(call, chat);
    }
    add_logprobs(choice["logprobs"], chat);
    add_end(choice, chat);
  }
  EXPECT_FALSE(chat.finish_reason.empty()) << "a stream always says how it ended";
  return chat;
}

// Plays `text`; asks streamed and not, in pieces of several sizes; expects one answer.
Chat chat_all_ways(const std::string& text, Json body) {
  std::optional<Chat> first;
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, text.size() + 1}) {
    TestServer server(TestServer::plays(text, piece));
    body["stream"] = false;
    const Chat whole = whole_chat(server.post("/v1/chat/completions", body));
    body["stream"] = true;
    const Chat streamed = streamed_chat(server.post("/v1/chat/completions", body));
    EXPECT_EQ(whole, streamed) << "piece " << piece << ": " << whole.content << " / "
                               << streamed.content;
    if (!first) first = whole;
    EXPECT_EQ(*first, whole) << "piece " << piece;
  }
  return *first;
}

Json with(Json body, const std::string& name, Json value) {
  body[name] = std::move(value);
  return body;
}

Json tool(const std::string& name, const Json& properties = Json::object()) {
  return {{"type", "function"},
          {"function",
           {{"name", name}, {"parameters", {{"type", "object"}, {"properties", properties}}}}}};
}

TEST(Chat, StopsAtAStopStringThatSpansTokens) {  // CT-09
  const Chat stopped =
      chat_all_ways("ABCDEFGHIJKL", with(with(chat_body(), "stop", {"DEFGHIJ"}), "logprobs", true));
  EXPECT_EQ(stopped.content, "ABC");
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.stop_reason, "DEFGHIJ");
  EXPECT_EQ(stopped.bytes.size(), 10U) << "tokens after the stop string do not count";
  const Chat missed = chat_all_ways("ABCDEFGX", with(chat_body(), "stop", {"DEFGHIJ"}));
  EXPECT_EQ(missed.content, "ABCDEFGX");
  EXPECT_EQ(missed.stop_reason, nullptr);
  EXPECT_EQ(chat_all_ways("a\n\nObsolete", with(chat_body(), "stop", {"\n\nObs:"})).content,
            "a\n\nObsolete");
  EXPECT_EQ(chat_all_ways("ABCDEF",
                          with(with(chat_body(), "stop", "CD"), "include_stop_str_in_output", true))
                .content,
            "ABCD");
}

TEST(Chat, HoldsBackOnlyWhatMayBecomeAStopString) {  // CT-10
  Json body = with(chat_body(), "stop", {"b,c", "ZZZZZZZZZZZZZZZZZZZZ"});
  const Chat chat = chat_all_ways("<think>p</think>answer, b", body);
  EXPECT_EQ(chat.reasoning, "p");
  EXPECT_EQ(chat.content, "answer, b");
  TestServer server(TestServer::plays("<think>p</think>answer, b"));
  body["stream"] = true;
  EXPECT_GE(streamed_chat(server.post("/v1/chat/completions", body)).content_chunks, 8);
}

TEST(Chat, CountsTokensUpToTheStopString) {
  TestServer server(TestServer::plays("ABCDEFGHIJKL", 12));
  const Json usage =
      server.post("/v1/chat/completions", with(chat_body(), "stop", {"CD"})).json()["usage"];
  EXPECT_EQ(usage["completion_tokens"], 4);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST(Chat, ShowsBrokenTextAsReplacementCharacters) {  // AP-08
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
           {"a\xE2\x82", "a\uFFFD"},
           {"\xFF\xFE", "\uFFFD\uFFFD"},
           {"\xC0\x80x", "\uFFFD\uFFFDx"},
           {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
           {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"}}) {
    const Chat chat = chat_all_ways(bytes, with(chat_body(), "logprobs", true));
    EXPECT_EQ(chat.content, text);
    EXPECT_EQ(chat.bytes.size(), bytes.size()) << "the bytes stay exact";
    EXPECT_EQ(chat_all_ways("<think>" + bytes + "</think>ok", chat_body()).reasoning, text);
  }
}

TEST(Chat, GivesTheBytesOfTokensInLogprobs) {  // CT-14
  const std::string text = "今天🦀 é";
  const Chat chat =
      chat_all_ways(text, with(with(chat_body(), "logprobs", true), "top_logprobs", 5));
  std::string joined;
  for (const int byte : chat.bytes) joined += static_cast<char>(byte);
  EXPECT_EQ(joined, text);
  EXPECT_EQ(chat.content, text);
  TestServer server(TestServer::plays("a"));
  const Json token = server
                         .post("/v1/chat/completions",
                               with(with(chat_body(), "logprobs", true), "top_logprobs", 2))
                         .json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "a");
  EXPECT_EQ(token["top_logprobs"].size(), 2U);
  EXPECT_EQ(token["top_logprobs"][0]["bytes"], Json::array({97}));
}

TEST(Chat, SplitsReasoningByTheTokensOfThePrompt) {  // TC-20
  Json opened = with(chat_body(), "chat_template_kwargs", {{"enable_thinking", true}});
  Json closed = with(chat_body(), "chat_template_kwargs", {{"enable_thinking", false}});
  const Chat a = chat_all_ways("plan</think>It is 20C.", opened);
  EXPECT_EQ(a.reasoning, "plan");
  EXPECT_EQ(a.content, "It is 20C.");
  const Chat b = chat_all_ways("It is 20C.", closed);
  EXPECT_EQ(b.reasoning, "");
  EXPECT_EQ(b.content, "It is 20C.");
  const Chat c = chat_all_ways("<think>plan</think>It is 20C.", chat_body());
  EXPECT_EQ(c.reasoning, "plan");
  EXPECT_EQ(c.content, "It is 20C.");
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, Json>>{{"enable_thinking", true},
                                                 {"thinking", {{"type", "enabled"}}},
                                                 {"reasoning_effort", "high"}}) {
    EXPECT_EQ(chat_all_ways("plan</think>x", with(chat_body(), name, value)).reasoning, "plan");
  }
}

TEST(Chat, CallsAToolWithoutArguments) {  // TC-01
  const Chat chat =
      chat_all_ways("<tool_call>get_current_time</tool_call>",
                    with(chat_body("time?"), "tools", Json::array({tool("get_current_time")})));
  EXPECT_EQ(chat.call_names, std::vector<std::string>{"get_current_time"});
  EXPECT_EQ(chat.call_arguments, std::vector<std::string>{"{}"});
  EXPECT_EQ(chat.content, "");
  EXPECT_EQ(chat.finish_reason, "tool_calls");
}

TEST(Chat, KeepsArgumentsWholeForEveryCut) {  // TC-02
  const Json string_type = {{"type", "string"}};
  const Chat chat = chat_all_ways(
      "<tool_call>write_file<arg_key>path</arg_key><arg_value>/home/u/a b.txt</arg_value>"
      "<arg_key>body</arg_key><arg_value>line1\n\"q\" \\ {x}</arg_value></tool_call>",
      with(chat_body(),
           "tools",
           Json::array({tool("write_file", {{"path", string_type}, {"body", string_type}})})));
  ASSERT_EQ(chat.call_arguments.size(), 1U);
  EXPECT_EQ(Json::parse(chat.call_arguments[0]),
            Json({{"path", "/home/u/a b.txt"}, {"body", "line1\n\"q\" \\ {x}"}}));
}

TEST(Chat, TypesArgumentsBySchemaInBothForms) {  // TC-13
  const Json properties = {{"i", {{"type", "integer"}}},
                           {"n", {{"type", "number"}}},
                           {"b", {{"type", "boolean"}}},
                           {"z", {{"type", "null"}}},
                           {"a", {{"type", "array"}}},
                           {"o", {{"type", "object"}}},
                           {"e", {{"enum", {1, 2}}}},
                           {"s", {{"type", "string"}}}};
  std::string text = "<tool_call>f";
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"i", "5"},
                                                        {"n", "1.5"},
                                                        {"b", "true"},
                                                        {"z", "null"},
                                                        {"a", "[1,\"x\"]"},
                                                        {"o", "{\"k\":2}"},
                                                        {"e", "2"},
                                                        {"s", "12"}}) {
    text += "<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value>";
  }
  const Chat chat = chat_all_ways(text + "</tool_call>",
                                  with(chat_body(), "tools", Json::array({tool("f", properties)})));
  ASSERT_EQ(chat.call_arguments.size(), 1U);
  EXPECT_EQ(Json::parse(chat.call_arguments[0]).dump(),
            R"({"i":5,"n":1.5,"b":true,"z":null,"a":[1,"x"],"o":{"k":2},"e":2,"s":"12"})");
}

TEST(Chat, NeverEscapesArguments) {  // TC-14
  for (const std::string value : {"if a &lt; b &amp;&amp; c &gt; d: print(\"&#39;\")",
                                  "if a < b && c > d: print(\"'\")",
                                  "<b>not a tag</b> </arg_key> still text"}) {
    const Chat chat = chat_all_ways(
        "<tool_call>run<arg_key>code</arg_key><arg_value>" + value + "</arg_value></tool_call>",
        with(chat_body(), "tools", Json::array({tool("run", {{"code", {{"type", "string"}}}})})));
    ASSERT_EQ(chat.call_arguments.size(), 1U);
    EXPECT_EQ(Json::parse(chat.call_arguments[0])["code"], value);
  }
}

TEST(Chat, NeverCutsACharacterInArguments) {  // TC-15
  for (const int repeats : {1, 2, 7}) {
    std::string value = std::string(static_cast<size_t>(repeats), 'q');
    for (int i = 0; i < repeats; ++i) value += "ÄÖÜäöüß你好🦀";
    const Chat chat = chat_all_ways(
        "<tool_call>run<arg_key>s</arg_key><arg_value>" + value + "</arg_value></tool_call>",
        with(chat_body(), "tools", Json::array({tool("run", {{"s", {{"type", "string"}}}})})));
    ASSERT_EQ(chat.call_arguments.size(), 1U);
    EXPECT_EQ(Json::parse(chat.call_arguments[0])["s"], value);
  }
}

TEST(Chat, NumbersParallelCalls) {  // TC-16
  const Chat chat = chat_all_ways(
      "<tool_call>add<arg_key>a</arg_key><arg_value>2</arg_value></tool_call>\n"
      "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Tokyo</arg_value></tool_call>",
      with(chat_body(),
           "tools",
           Json::array({tool("add", {{"a", {{"type", "integer"}}}}),
                        tool("get_weather", {{"city", {{"type", "string"}}}})})));
  EXPECT_EQ(chat.call_names, (std::vector<std::string>{"add", "get_weather"}));
  ASSERT_EQ(chat.call_arguments.size(), 2U);
  EXPECT_EQ(Json::parse(chat.call_arguments[0]), Json({{"a", 2}}));
  EXPECT_EQ(Json::parse(chat.call_arguments[1]), Json({{"city", "Tokyo"}}));
  EXPECT_NE(chat.call_ids[0], chat.call_ids[1]);
  EXPECT_EQ(chat.content, "");
}

TEST(Chat, SaysHowItEndedInTheSameWordsForEveryToolChoice) {  // TC-19
  const std::string text =
      "<tool_call>f<arg_key>a</arg_key><arg_value>some text</arg_value></tool_call>";
  for (const Json& choice : {Json("auto"),
                             Json("required"),
                             Json({{"type", "function"}, {"function", {{"name", "f"}}}})}) {
    Json body = with(chat_body(), "tools", Json::array({tool("f")}));
    body["tool_choice"] = choice;
    EXPECT_EQ(chat_all_ways(text, body).finish_reason, "tool_calls") << choice;
    body["max_tokens"] = 8;
    EXPECT_EQ(chat_all_ways(text, body).finish_reason, "length") << choice;
  }
  Json none = with(chat_body(), "tools", Json::array({tool("f")}));
  none["tool_choice"] = "none";
  const Chat chat = chat_all_ways(text, none);
  EXPECT_EQ(chat.finish_reason, "stop");
  EXPECT_EQ(chat.content, text) << "without tools the markers stay in the content";
}

TEST(Chat, ACallThatTheContextCutsOffIsNoFinishedCall) {  // TC-05
  const std::string call = "<tool_call>f<arg_key>text</arg_key><arg_value>" + std::string(60, 'w') +
                           "</arg_value></tool_call>";
  for (const size_t room : {1U, 3U, 8U, 20U, 40U}) {
    Json body =
        with(chat_body(std::string(512 - room - 4, 'x')), "tools", Json::array({tool("f")}));
    const Chat chat = chat_all_ways(call, body);
    EXPECT_EQ(chat.finish_reason, "length") << room;
    for (const std::string& arguments : chat.call_arguments) {
      EXPECT_FALSE(Json::accept(arguments)) << "the end is not invented: " << arguments;
    }
    TestServer server(TestServer::plays(call));
    const Json answer = server.post("/v1/chat/completions", body).json();
    EXPECT_EQ(answer["usage"]["completion_tokens"], room);
  }
}

TEST(Chat, CountsAnswersThatSayNothingOrCallWhatWasNotOffered) {  // TC-21, TC-26
  const auto counted = [](const std::string& text, bool stream) {
    TestServer server(TestServer::plays(text));
    Json body = with(chat_body(), "tools", Json::array({tool("read_file")}));
    body["stream"] = stream;
    EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
    const Metrics& metrics = server.service().metrics();
    return std::pair(metrics.empty_answers.load(), metrics.unknown_tool_answers.load());
  };
  using Counts = std::pair<int64_t, int64_t>;
  for (const bool stream : {false, true}) {
    EXPECT_EQ(counted("<think>I will <tool_call>x</tool_call></think>", stream), Counts(1, 0));
    EXPECT_EQ(counted("<think>call x", stream), Counts(1, 0));
    EXPECT_EQ(counted("", stream), Counts(1, 0));
    EXPECT_EQ(counted("text", stream), Counts(0, 0));
    EXPECT_EQ(counted("<think>a</think><tool_call>read_file</tool_call>", stream), Counts(0, 0));
    EXPECT_EQ(
        counted("<tool_call>rm_rf<arg_key>p</arg_key><arg_value>/</arg_value></tool_call>", stream),
        Counts(0, 1));
  }
}

TEST(Chat, SendsACallWhileItIsWritten) {  // TC-30
  TestServer server(TestServer::plays("<tool_call>write<arg_key>body</arg_key><arg_value>" +
                                      std::string(400, 'w') + "</arg_value></tool_call>"));
  Json body =
      with(chat_body(), "tools", Json::array({tool("write", {{"body", {{"type", "string"}}}})}));
  body["stream"] = true;
  int deltas = 0;
  size_t longest = 0;
  for (const Json& event : server.post("/v1/chat/completions", body).events()) {
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const Json& function = delta["tool_calls"][0]["function"];
    if (deltas++ == 0) {
      EXPECT_EQ(function["name"], "write");
    }
    longest = std::max(longest, function.value("arguments", "").size());
  }
  EXPECT_GE(deltas, 300);
  EXPECT_LE(longest, 30U);
}

TEST(Chat, ReadsMaxTokens) {  // AP-02
  TestServer server(TestServer::plays_forever("x", milliseconds(0)));
  const auto status = [&](const std::string& name, Json value) {
    return server.post("/v1/chat/completions", with(chat_body(), name, std::move(value)));
  };
  const auto tokens = [](const TestResponse& response) {
    return response.json()["usage"]["completion_tokens"].get<int>();
  };
  EXPECT_EQ(tokens(server.post("/v1/chat/completions", chat_body())), 506);
  EXPECT_EQ(tokens(status("max_tokens", nullptr)), 506);
  EXPECT_EQ(tokens(status("max_tokens", 3)), 3);
  EXPECT_EQ(tokens(status("max_tokens", 1000000000000)), 506);
  EXPECT_EQ(tokens(status("max_completion_tokens", 4)), 4);
  EXPECT_EQ(
      tokens(server.post("/v1/chat/completions",
                         with(with(chat_body(), "max_tokens", 9), "max_completion_tokens", 4))),
      4);
  for (const Json& wrong : {Json(0), Json(-1), Json(1.5), Json("10"), Json(true), Json(1e12)}) {
    const TestResponse response = status("max_tokens", wrong);
    EXPECT_EQ(response.status, 400) << wrong;
    EXPECT_EQ(response.json()["error"]["param"], "max_tokens") << wrong;
  }
}

TEST(Chat, FitsMinTokensAsMaxTokens) {
  TestServer server(TestServer::plays_forever("x", milliseconds(0)));
  Json body = with(chat_body(), "min_tokens", 10);
  EXPECT_EQ(server.post("/v1/chat/completions", with(body, "max_tokens", 10)).status, 200);
  for (const std::string path : {"/v1/chat/completions", "/v1/completions"}) {
    body["max_tokens"] = 9;
    body["prompt"] = "x";
    const TestResponse refused = server.post(path, body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json()["error"]["param"], "min_tokens") << refused.body;
  }
  body = {{"prompt", std::vector<int>(510, 97)}, {"max_tokens", 100}, {"min_tokens", 50}};
  EXPECT_EQ(server.post("/v1/completions", body).json()["usage"]["completion_tokens"], 2);
  EXPECT_EQ(server.engine().last_sampling.min_tokens, 2);
}

TEST(Chat, EndsAtTheContextLimit) {  // LC-10
  TestServer server(TestServer::plays_forever("x", milliseconds(0)));
  const auto ask = [&](size_t prompt_tokens) {
    std::vector<int> ids(prompt_tokens, 97);
    return server.post("/v1/completions",
                       {{"model", "tiny"}, {"prompt", ids}, {"max_tokens", 100}});
  };
  const TestResponse fits = ask(510);
  EXPECT_EQ(fits.json()["usage"]["completion_tokens"], 2);
  EXPECT_EQ(fits.json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(ask(511).json()["usage"]["completion_tokens"], 1);
  for (const size_t tokens : {512U, 513U, 5000U}) {
    const TestResponse response = ask(tokens);
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(response.body.find(std::to_string(tokens)), std::string::npos);
    EXPECT_NE(response.body.find("512"), std::string::npos);
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Chat, RefusesMessagesThatAreNone) {  // AP-03
  TestServer server(TestServer::plays("x"));
  for (const char* messages : {"[]",
                               "[{}]",
                               R"([{"role":"user"}])",
                               R"([{"role":"user","content":null}])",
                               R"([{"role":"foo","content":"x"}])",
                               R"("hello")",
                               "null",
                               R"(["x"])",
                               R"([{"role":"user","content":5}])",
                               R"([{"role":"user","content":[{"type":"image_url",
        "image_url":{"url":"x"}}]}])"}) {
    Json body = {{"model", "tiny"}, {"messages", Json::parse(messages)}};
    const TestResponse response = server.post("/v1/chat/completions", body);
    EXPECT_EQ(response.status, 400) << messages;
    EXPECT_NE(response.body.find("messages"), std::string::npos) << response.body;
  }
  const Json parts = Json::parse(
      R"([{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}])");
  EXPECT_EQ(
      server.post("/v1/chat/completions", {{"messages", parts}}).json()["usage"]["prompt_tokens"],
      6);
}

TEST(Chat, ChecksSamplingFields) {  // AP-04 among others
  TestServer server(TestServer::plays("x"));
  for (const auto& [name, values] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", R"([-1, "hot", [1]])"},
           {"top_p", "[0, 1.1, -0.5]"},
           {"min_p", "[-0.1, 2]"},
           {"top_k", "[-2, 1.5]"},
           {"presence_penalty", "[3]"},
           {"frequency_penalty", "[-3]"},
           {"repetition_penalty", "[0, -1]"},
           {"n", "[0, 129, 1.5]"},
           {"seed", R"(["x", 1.5])"},
           {"stop", R"(["", 5, ["a", 5]])"},
           {"stop_token_ids", R"([["a"], [-1], [99999]])"},
           {"logit_bias", R"([{"x": 1}, {"5": 200}, {"99999": 1}, [1]])"},
           {"logprobs", R"([5])"},
           {"top_logprobs", "[5]"},
           {"stream", R"(["yes"])"},
           {"stream_options", R"([{"include_usage": true}])"},
           {"response_format", R"([{"type":"json_object"}])"},
           {"tools", R"(["x", [{"type":"function"}]])"},
           {"tool_choice", R"(["required"])"},
           {"chat_template_kwargs",
            R"([5, {"messages": []}, {"tools": []}, {"add_generation_prompt": false},
                {"enable_thinking": true, "eos_token": ""}, {"chat_template": "x"},
                {"tokenize": false}, {"raise_exception": 1}])"}}) {
    for (const Json& value : Json::parse(values)) {
      if (name == "stop" && value == Json::array({"a", 5})) continue;
      const TestResponse response =
          server.post("/v1/chat/completions", with(chat_body(), name, value));
      EXPECT_EQ(response.status, 400) << name << " " << value << " " << response.body;
      EXPECT_NE(response.body.find(name), std::string::npos) << response.body;
    }
  }
  for (const double temperature : {1e-30, 1e-8, 0.0, -0.0, 2.0, 1e9}) {
    EXPECT_EQ(
        server.post("/v1/chat/completions", with(chat_body(), "temperature", temperature)).status,
        200);
  }
}

TEST(Chat, HandsSamplingFieldsToTheEngine) {
  TestServer server(TestServer::plays("x"));
  Json body = chat_body();
  body.update({{"temperature", 0.5},
               {"top_p", 0.9},
               {"top_k", 7},
               {"min_p", 0.1},
               {"presence_penalty", 1.0},
               {"frequency_penalty", -1.0},
               {"repetition_penalty", 1.2},
               {"seed", 42},
               {"min_tokens", 3},
               {"ignore_eos", true},
               {"stop_token_ids", {5, 6}},
               {"logit_bias", {{"7", -100}}},
               {"max_tokens", 9}});
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
  const SamplingParams& sampling = server.engine().last_sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 1.0F);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, -1.0F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.2F);
  EXPECT_EQ(sampling.seed, 42U);
  EXPECT_EQ(sampling.min_tokens, 3);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.stop_token_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(sampling.logit_bias.at(7), -100.0F);
  EXPECT_EQ(sampling.max_tokens, 9);
}

TEST(Chat, SaysWhichFieldsItDoesNotKnow) {  // NU-05
  TestServer server(TestServer::plays("x"));
  Json body = chat_body();
  body["stream_option"] = {{"include_usage", true}};
  body["user"] = "u";
  body["metadata"] = Json::object();
  body["store"] = false;
  body["service_tier"] = "auto";
  const TestResponse warned = server.post("/v1/chat/completions", body);
  EXPECT_EQ(warned.status, 200);
  EXPECT_EQ(warned.headers.at("x-baton-unknown-fields"), "stream_option");
  EXPECT_NE(warned.json()["warnings"][0].get<std::string>().find("stream_option"),
            std::string::npos);
  body["stream"] = true;
  const TestResponse streamed = server.post("/v1/chat/completions", body);
  EXPECT_EQ(streamed.headers.at("x-baton-unknown-fields"), "stream_option");
  EXPECT_TRUE(streamed.events()[0].contains("warnings"));
  ServiceOptions strict = TestServer::default_options();
  strict.strict_requests = true;
  TestServer strict_server(TestServer::plays("x"), strict);
  const TestResponse refused = strict_server.post("/v1/chat/completions", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("stream_option"), std::string::npos);
  EXPECT_EQ(strict_server.post("/v1/chat/completions", chat_body()).status, 200);
  EXPECT_EQ(server.post("/v1/chat/completions", with(chat_body(), "guided_json", "{}")).status, 400)
      << "an unconstrained answer would look valid";
}

TEST(Chat, NamesTwentyUnknownFieldsAndCountsTheOthers) {
  TestServer server(TestServer::plays("x"));
  Json body = chat_body();
  for (int i = 0; i < 500; ++i) body["field_" + std::to_string(i)] = i;
  const TestResponse warned = server.post("/v1/chat/completions", body);
  EXPECT_EQ(warned.status, 200);
  const Json warnings = warned.json()["warnings"];
  ASSERT_EQ(warnings.size(), 21U);
  EXPECT_EQ(warnings[20], "480 more unknown fields were ignored");
}

TEST(Chat, ReportsUsageOnceAtTheEndOfAStream) {  // AP-16
  for (const int n : {1, 2}) {
    TestServer server(TestServer::plays("Hello"));
    Json body = with(with(chat_body(), "stream", true), "n", n);
    for (const Json& event : server.post("/v1/chat/completions", body).events()) {
      EXPECT_FALSE(event.contains("usage"));
    }
    body["stream_options"] = {{"include_usage", true}};
    std::vector<Json> events = server.post("/v1/chat/completions", body).events();
    EXPECT_EQ(events.back()["choices"], Json::array());
    EXPECT_EQ(events.back()["usage"]["completion_tokens"], 5 * n);
    EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 6);
    events.pop_back();
    for (const Json& event : events) EXPECT_TRUE(event.at("usage").is_null());
    body["stream_options"]["continuous_usage_stats"] = true;
    for (const Json& event : server.post("/v1/chat/completions", body).events()) {
      EXPECT_TRUE(event.at("usage").is_object());
    }
  }
}

TEST(Chat, StreamsAnAnswerWithoutTokens) {
  TestServer server(TestServer::plays(""));
  const TestResponse response =
      server.post("/v1/chat/completions", with(chat_body(), "stream", true));
  const Chat chat = streamed_chat(response);
  EXPECT_EQ(chat.content, "");
  EXPECT_EQ(chat.finish_reason, "stop");
  EXPECT_EQ(whole_chat(server.post("/v1/chat/completions", chat_body())).finish_reason, "stop");
}

TEST(Chat, GivesEachOfSeveralChoicesItsOwnSeedAndEnd) {  // AP-17
  const auto script = [](const Request& request) {
    FakeEngine::Play play;
    const uint64_t seed = request.sampling.seed.value_or(0);
    for (uint64_t i = 0; i < 2 + 5 * (seed % 4); ++i) {
      play.tokens.push_back(static_cast<int32_t>('a' + (seed + i) % 26));
    }
    return play;
  };
  TestServer server(script);
  Json body = with(with(chat_body(), "n", 4), "seed", 4);
  const TestResponse first = server.post("/v1/chat/completions", body);
  std::set<std::string> texts;
  int64_t tokens = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Chat chat = whole_chat(first, i);
    texts.insert(chat.content);
    tokens += static_cast<int64_t>(chat.content.size());
    EXPECT_EQ(chat.finish_reason, "stop");
  }
  EXPECT_EQ(texts.size(), 4U);
  EXPECT_EQ(first.json()["usage"]["completion_tokens"], tokens);
  EXPECT_EQ(first.json()["usage"]["prompt_tokens"], 6);
  body["stream"] = true;
  const TestResponse streamed = server.post("/v1/chat/completions", body);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(streamed_chat(streamed, i), whole_chat(first, static_cast<size_t>(i)));
  }
}

TEST(Chat, EndsAFailedAnswerWithAnError) {  // AP-19
  TestServer server([](const Request&) {
    FakeEngine::Play play;
    play.tokens = baton::play("Hello");
    play.fail_at = 3;
    return play;
  });
  Json body = with(chat_body(), "stream", true);
  TestClient client(server.port());
  const TestResponse response = client.post("/v1/chat/completions", body);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.events().back()["error"]["code"], "internal_error");
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(client.at_end()) << "the connection is closed after an error";
  EXPECT_EQ(server.post("/v1/chat/completions", chat_body()).status, 500);
  for (const Json& wrong : {with(body, "n", 0), with(body, "model", "none")}) {
    const TestResponse refused = server.post("/v1/chat/completions", wrong);
    EXPECT_GE(refused.status, 400);
    EXPECT_EQ(refused.headers.at("content-type"), "application/json");
  }
}

TEST(Chat, ReturnsTokenIdsWhenAsked) {
  TestServer server(TestServer::plays("ab"));
  const Json answer =
      server.post("/v1/chat/completions", with(chat_body(), "return_token_ids", true)).json();
  EXPECT_EQ(answer["choices"][0]["token_ids"], Json::array({97, 98}));
  EXPECT_EQ(answer["prompt_token_ids"], Json::array({1000, 1001, 1004, 104, 105, 1005}));
}

TEST(Completions, TakeEveryFormOfPrompt) {
  TestServer server(TestServer::plays("out"));
  const auto ask = [&](Json prompt) {
    return server.post("/v1/completions", {{"model", "tiny"}, {"prompt", std::move(prompt)}});
  };
  EXPECT_EQ(ask("abc").json()["choices"][0]["text"], "out");
  EXPECT_EQ(ask("abc").json()["usage"]["prompt_tokens"], 5) << "with the prefix";
  EXPECT_EQ(ask({97, 98}).json()["usage"]["prompt_tokens"], 2);
  const Json two = ask({"ab", "cd"}).json();
  EXPECT_EQ(two["choices"].size(), 2U);
  EXPECT_EQ(two["choices"][1]["index"], 1);
  EXPECT_EQ(two["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(ask({{97}, {98, 99}}).json()["usage"]["prompt_tokens"], 3);
}

TEST(Completions, RefuseEmptyAndWrongPrompts) {  // AP-03
  TestServer server(TestServer::plays("x"));
  for (const char* prompt : {"[]",
                             "[[]]",
                             "[-1]",
                             "[999999999]",
                             "[1.5]",
                             "null",
                             "{}",
                             "5",
                             "[\"a\", 5]",
                             "[[1], \"a\", {}]"}) {
    const TestResponse response = server.post("/v1/completions", {{"prompt", Json::parse(prompt)}});
    EXPECT_EQ(response.status, 400) << prompt;
    EXPECT_EQ(response.json()["error"]["param"], "prompt") << prompt;
  }
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", ""}, {"add_special_tokens", false}}).status,
            400);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"suffix", "b"}}).status, 400);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Completions, DefaultToSixteenTokens) {
  TestServer server(TestServer::plays_forever("x", milliseconds(0)));
  const auto tokens = [&](Json body) {
    return server.post("/v1/completions", body).json()["usage"]["completion_tokens"].get<int>();
  };
  EXPECT_EQ(tokens({{"prompt", {97}}}), 16);
  EXPECT_EQ(tokens({{"prompt", {97}}, {"max_tokens", nullptr}}), 511);
}

TEST(Completions, ScoreAPrompt) {  // CT-12
  TestServer server(TestServer::plays("out"));
  for (const int max_tokens : {0, 1}) {
    for (const Json& prompt : {Json("Yes"), Json({89, 101, 115}), Json({"Yes", "No."})}) {
      const Json body = {{"prompt", prompt},
                         {"max_tokens", max_tokens},
                         {"echo", true},
                         {"logprobs", 1},
                         {"add_special_tokens", false}};
      const TestResponse response = server.post("/v1/completions", body);
      ASSERT_EQ(response.status, 200) << response.body;
      const Json answer = response.json();
      const Json& choice = answer["choices"][0];
      EXPECT_EQ(choice["text"], max_tokens == 0 ? "Yes" : "Yeso");
      const Json& logprobs = choice["logprobs"];
      EXPECT_EQ(logprobs["tokens"].size(), 3U + static_cast<size_t>(max_tokens));
      EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
      EXPECT_TRUE(logprobs["token_logprobs"][1].is_number());
      EXPECT_EQ(logprobs["text_offset"][2], 2);
      EXPECT_EQ(answer["usage"]["completion_tokens"],
                max_tokens * static_cast<int>(answer["choices"].size()));
      Json streamed_body = body;
      streamed_body["stream"] = true;
      std::string text;
      size_t tokens = 0;
      for (const Json& event : server.post("/v1/completions", streamed_body).events()) {
        if (event["choices"][0]["index"] != 0) continue;
        text += event["choices"][0]["text"];
        tokens += event["choices"][0]["logprobs"]["tokens"].size();
      }
      EXPECT_EQ(text, choice["text"]);
      EXPECT_EQ(tokens, logprobs["tokens"].size());
    }
  }
}

TEST(Completions, ScoreAPromptOfOneToken) {  // CT-12
  for (const bool stream : {false, true}) {
    for (const int max_tokens : {0, 1}) {
      TestServer server(TestServer::plays("out"));
      const TestResponse response = server.post("/v1/completions",
                                                {{"prompt", Json::array({89})},
                                                 {"max_tokens", max_tokens},
                                                 {"echo", true},
                                                 {"logprobs", 1},
                                                 {"stream", stream}});
      ASSERT_EQ(response.status, 200) << response.body;
      const Json choice = (stream ? response.events()[0] : response.json())["choices"][0];
      EXPECT_EQ(choice["text"], max_tokens == 0 ? "Y" : "Yo");
      const Json& logprobs = choice["logprobs"];
      EXPECT_EQ(logprobs["tokens"][0], "Y");
      EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
      EXPECT_EQ(logprobs["tokens"].size(), 1U + static_cast<size_t>(max_tokens));
    }
  }
}

TEST(Completions, NeverShowThePrompt) {  // CT-16
  TestServer server(TestServer::plays("\xB6!"));
  std::vector<int> ids;
  for (const char c : std::string("secret text \xF0\x9F\x8C")) {
    ids.push_back(static_cast<unsigned char>(c));
  }
  const Json body = {{"prompt", ids}, {"max_tokens", 3}, {"stream", true}};
  const TestResponse response = server.post("/v1/completions", body);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
}

TEST(Completions, StopByIdAndSayWhich) {
  TestServer server([](const Request&) {
    FakeEngine::Play play;
    play.tokens = {97, 98};
    return play;
  });
  const Json answer = server.post("/v1/completions", {{"prompt", "a"}, {"stop", "b"}}).json();
  EXPECT_EQ(answer["choices"][0]["text"], "a");
  EXPECT_EQ(answer["choices"][0]["stop_reason"], "b");
}

TEST(Tokens, GoThereAndBack) {
  TestServer server(TestServer::plays("x"));
  const Json tokens = server.post("/tokenize", {{"prompt", "ab"}}).json();
  EXPECT_EQ(tokens["tokens"], Json::array({1000, 1001, 97, 98}));
  EXPECT_EQ(tokens["count"], 4);
  EXPECT_EQ(tokens["max_model_len"], 512);
  EXPECT_EQ(
      server.post("/tokenize", {{"prompt", "ab"}, {"add_special_tokens", false}}).json()["count"],
      2);
  const Json chat = server.post("/v1/tokenize", chat_body()).json();
  EXPECT_EQ(chat["tokens"], Json::array({1000, 1001, 1004, 104, 105, 1005}));
  EXPECT_EQ(server.post("/detokenize", {{"tokens", {97, 98}}}).json()["prompt"], "ab");
  EXPECT_EQ(server.post("/detokenize", {{"tokens", {99999}}}).status, 400);
  EXPECT_EQ(server.post("/tokenize", Json::object()).status, 400);
}

}  // namespace
}  // namespace baton
