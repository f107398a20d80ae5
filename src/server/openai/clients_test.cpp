// What real clients send, and what they look for in answers: each test names the client or the
// convention it comes from.
#include <gtest/gtest.h>

#include "server/testing/test_server.h"

namespace baton {
namespace {

Json with(Json body, const Json& fields) {
  body.update(fields);
  return body;
}

Json function_tool(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", Json::object()}}}};
}

FakeEngine::Script plays_ids(std::vector<int32_t> ids, size_t piece = 1) {
  return [ids = std::move(ids), piece](const Request&) {
    FakeEngine::Play play;
    play.tokens = ids;
    play.piece = piece;
    return play;
  };
}

bool warns(const TestResponse& response, const std::string& what) {
  const Json answer = response.json();
  return answer.contains("warnings") && answer["warnings"].dump().find(what) != std::string::npos;
}

// Rust and Go clients read `code` as text; agents shorten their history when they find the code,
// or the words that OpenAI uses.
TEST(Errors, CarryCodesThatProgramsLookFor) {
  TestServer server(TestServer::plays("x"));
  const auto error = [&](const std::string& path, const Json& body, int status) {
    const TestResponse response = server.post(path, body);
    EXPECT_EQ(response.status, status) << response.body;
    return response.json()["error"];
  };
  for (const Json& body : {chat_body(std::string(600, 'x')), chat_body(std::string(200000, 'x'))}) {
    const Json refused = error("/v1/chat/completions", body, 400);
    EXPECT_EQ(refused["code"], "context_length_exceeded");
    EXPECT_EQ(refused["param"], "messages");
    EXPECT_NE(refused["message"].get<std::string>().find("maximum context length is 512 tokens"),
              std::string::npos);
  }
  EXPECT_EQ(error("/v1/completions", {{"prompt", std::vector<int>(600, 97)}}, 400)["code"],
            "context_length_exceeded");
  EXPECT_EQ(error("/v1/completions", {{"prompt", std::string(200000, 'x')}}, 400)["code"],
            "context_length_exceeded");
  EXPECT_EQ(error("/v1/completions", {{"model", "gpt"}, {"prompt", "x"}}, 404)["code"],
            "model_not_found");
  EXPECT_EQ(error("/v1/completions", {{"prompt", "x"}, {"n", 0}}, 400)["code"], nullptr);
  EXPECT_EQ(server.get("/v1/models/gpt").json()["error"]["code"], "model_not_found");
  EXPECT_EQ(server.post("/v1/completions", {{"model", ""}, {"prompt", "x"}}).status, 200);
}

TEST(Errors, OfKeysAndQueuesCarryCodesToo) {
  ServiceOptions options = TestServer::default_options();
  options.api_key = "secret";
  TestServer server(TestServer::plays("x"), options);
  const TestResponse refused = server.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  const auto listed = [&](const std::string& scheme) {
    return TestClient(server.port())
        .request("GET", "/v1/models", "", "Authorization: " + scheme + " secret\r\n")
        .status;
  };
  EXPECT_EQ(listed("bearer"), 200) << "schemes have no case";
  EXPECT_EQ(listed("Basic"), 401);
  server.engine().refuse_all = true;
  const TestResponse full =
      TestClient(server.port())
          .request(
              "POST", "/v1/completions", R"({"prompt":"x"})", "Authorization: Bearer secret\r\n");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.json()["error"]["code"], "rate_limit_exceeded");
}

// Typed clients send every optional field they know, as null.
TEST(Fields, ThatAreNullAskForNothing) {
  ServiceOptions strict = TestServer::default_options();
  strict.strict_requests = true;
  TestServer server(TestServer::plays("x"), strict);
  Json nulls = Json::object();
  for (const char* name : {"temperature",
                           "top_p",
                           "n",
                           "stream",
                           "stream_options",
                           "stop",
                           "max_tokens",
                           "seed",
                           "max_completion_tokens",
                           "presence_penalty",
                           "frequency_penalty",
                           "logit_bias",
                           "logprobs",
                           "top_logprobs",
                           "user",
                           "tools",
                           "tool_choice",
                           "parallel_tool_calls",
                           "response_format",
                           "functions",
                           "function_call",
                           "audio",
                           "modalities",
                           "metadata",
                           "reasoning_effort",
                           "chat_template_kwargs",
                           "best_of",
                           "suffix",
                           "echo",
                           "guided_json",
                           "verbosity",
                           "something_new"}) {
    nulls[name] = nullptr;
  }
  const TestResponse chat = server.post("/v1/chat/completions", with(chat_body(), nulls));
  EXPECT_EQ(chat.status, 200) << chat.body;
  EXPECT_FALSE(chat.headers.contains("x-baton-unknown-fields"));
  EXPECT_EQ(server.post("/v1/completions", with({{"prompt", "x"}}, nulls)).status, 200);
}

TEST(Fields, ThatAnAnswerWouldHideAreRefused) {
  TestServer server(TestServer::plays("x"));
  const Json wrong = Json::parse(R"({
      "structured_outputs": {"json": {}}, "guided_json": {"type": "object"}, "guided_regex": "a+",
      "allowed_token_ids": [5], "bad_words": ["x"], "use_beam_search": true,
      "chat_template": "{{ messages }}", "functions": [{"name": "f"}], "function_call": "auto",
      "audio": {"voice": "x"}, "modalities": ["text", "audio"], "suffix": "}",
      "response_format": {"type": "json_object"}, "truncate_prompt_tokens": 0})");
  const Json nothing = Json::parse(R"({
      "structured_outputs": {}, "guided_json": null, "guided_regex": "", "allowed_token_ids": [],
      "bad_words": [], "use_beam_search": false, "functions": [], "suffix": "",
      "modalities": ["text"], "response_format": {"type": "text"}})");
  for (const std::string path : {"/v1/chat/completions", "/v1/completions"}) {
    const Json body = with(chat_body(), {{"prompt", "x"}});
    for (const auto& [name, value] : wrong.items()) {
      const TestResponse refused = server.post(path, with(body, {{name, value}}));
      EXPECT_EQ(refused.status, 400) << name;
      EXPECT_EQ(refused.json()["error"]["param"], name);
    }
    EXPECT_EQ(server.post(path, with(body, nothing)).status, 200);
  }
}

// vLLM's best_of of older clients: as many as are returned is what n says already.
TEST(Fields, BestOfMayEqualN) {
  TestServer server(TestServer::plays("x"));
  const auto ask = [&](int n, int best_of) {
    return server.post("/v1/completions", {{"prompt", "x"}, {"n", n}, {"best_of", best_of}});
  };
  EXPECT_EQ(ask(2, 2).json()["choices"].size(), 2U);
  EXPECT_EQ(ask(2, 1).status, 200);
  EXPECT_EQ(ask(1, 3).status, 400);
}

TEST(Fields, TruncatePromptTokensKeepsTheEnd) {
  TestServer server(TestServer::plays("x"));
  const auto ask = [&](size_t length, int keep, int max_tokens) {
    std::vector<int> ids;
    for (size_t i = 0; i < length; ++i) ids.push_back('a' + static_cast<int>(i % 26));
    return server
        .post("/v1/completions",
              {{"prompt", ids},
               {"truncate_prompt_tokens", keep},
               {"max_tokens", max_tokens},
               {"echo", true}})
        .json();
  };
  EXPECT_EQ(ask(5, 2, 1)["choices"][0]["text"], "dex");
  EXPECT_EQ(ask(5, 9, 1)["choices"][0]["text"], "abcdex");
  EXPECT_EQ(ask(600, -1, 12)["usage"]["prompt_tokens"], 500);
  const Json chat = server
                        .post("/v1/chat/completions",
                              with(chat_body(std::string(600, 'x')),
                                   {{"truncate_prompt_tokens", -1}, {"max_tokens", 2}}))
                        .json();
  EXPECT_EQ(chat["usage"]["prompt_tokens"], 510);
}

// lm-evaluation-harness asks for one token behind the prompt and drops the last entry of each
// list: where the model ends at once, that entry is the end.
TEST(Scoring, ListsTheTokenThatEndsTheAnswer) {
  for (const bool stream : {false, true}) {
    TestServer server(plays_ids({FakeEngine::kEos}));
    const Json body = {{"prompt", {89, 101}},
                       {"max_tokens", 1},
                       {"echo", true},
                       {"logprobs", 1},
                       {"seed", 1},
                       {"stream", stream}};
    const TestResponse response = server.post("/v1/completions", body);
    ASSERT_EQ(response.status, 200) << response.body;
    Json tokens = Json::array(), text = "";
    for (const Json& event : stream ? response.events() : std::vector<Json>{response.json()}) {
      const Json& choice = event["choices"][0];
      text = text.get<std::string>() + choice["text"].get<std::string>();
      for (const Json& token : choice["logprobs"]["tokens"]) tokens.push_back(token);
    }
    EXPECT_EQ(text, "Ye") << "the end is no text";
    EXPECT_EQ(tokens, Json::array({"Y", "e", "<|endoftext|>"}));
  }
}

TEST(Scoring, CountsAndReturnsTheTokenThatEndsTheAnswer) {
  for (const size_t piece : {1U, 2U, 9U}) {
    TestServer server(plays_ids({97, 98, FakeEngine::kEos, 99}, piece));
    const Json fields = {{"return_token_ids", true}, {"logprobs", true}};
    const Json chat = server.post("/v1/chat/completions", with(chat_body(), fields)).json();
    const Json& choice = chat["choices"][0];
    EXPECT_EQ(choice["message"]["content"], "ab");
    EXPECT_EQ(choice["token_ids"], Json::array({97, 98, FakeEngine::kEos}));
    EXPECT_EQ(choice["logprobs"]["content"].size(), 3U);
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["stop_reason"], nullptr) << "the model's own end is not told";
    EXPECT_EQ(chat["usage"]["completion_tokens"], 3);
  }
}

TEST(Scoring, ShowsAStopTokenOnlyWhenAsked) {
  TestServer server(plays_ids({97, 98, 99}));
  const auto ask = [&](bool include) {
    return server
        .post("/v1/completions",
              {{"prompt", "x"}, {"stop_token_ids", {98}}, {"include_stop_str_in_output", include}})
        .json()["choices"][0];
  };
  EXPECT_EQ(ask(false)["text"], "a");
  EXPECT_EQ(ask(true)["text"], "ab");
  EXPECT_EQ(ask(true)["stop_reason"], 98);
}

TEST(Scoring, GivesOffsetsIntoTheText) {
  TestServer server(plays_ids({0xC3, 0xA9, FakeEngine::kEos}));
  const auto offsets = [&](const Json& fields) {
    const Json body = {{"prompt", "ab"}, {"echo", true}, {"logprobs", 0}};
    return server.post("/v1/completions", with(body, fields))
        .json()["choices"][0]["logprobs"]["text_offset"];
  };
  EXPECT_EQ(offsets({{"add_special_tokens", false}}), Json::array({0, 1, 2, 3, 3}));
  EXPECT_EQ(offsets(Json::object()), Json::array({0, 0, 0, 1, 2, 3, 3}))
      << "the prefix is not in the text";
  EXPECT_EQ(offsets({{"prompt", "[gMASK]<sop>ab"}}), Json::array({0, 7, 12, 13, 14, 15, 15}));
}

// OpenAI's legacy lists hold the sampled token beside the best ones.
TEST(Scoring, AlternativesHoldTheTokenItself) {
  TestServer server(TestServer::plays("a"));
  const auto top = [&](int count) {
    return server.post("/v1/completions", {{"prompt", "x"}, {"logprobs", count}})
        .json()["choices"][0]["logprobs"]["top_logprobs"][0];
  };
  EXPECT_EQ(top(0), Json({{"a", -0.5}}));
  EXPECT_EQ(top(2).size(), 2U);
}

TEST(Scoring, NamesTokensByIdWhenAsked) {
  TestServer server(TestServer::plays("a"));
  const Json fields = {{"return_tokens_as_token_ids", true}, {"top_logprobs", 1}};
  const Json chat =
      server.post("/v1/chat/completions", with(with(chat_body(), fields), {{"logprobs", true}}))
          .json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(chat["token"], "token_id:97");
  EXPECT_EQ(chat["top_logprobs"][0]["token"], "token_id:97");
  EXPECT_EQ(chat["bytes"], Json::array({97}));
  const Json legacy =
      server
          .post("/v1/completions",
                {{"prompt", "x"}, {"logprobs", 1}, {"return_tokens_as_token_ids", true}})
          .json()["choices"][0]["logprobs"];
  EXPECT_EQ(legacy["tokens"][0], "token_id:97");
  EXPECT_TRUE(legacy["top_logprobs"][0].contains("token_id:97"));
}

TEST(Reasoning, IsCountedAndLeftOutWhenAsked) {
  TestServer server(TestServer::plays("<think>plan</think>ok"));
  for (const bool stream : {false, true}) {
    Json body = with(chat_body(), {{"include_reasoning", false}, {"stream", stream}});
    if (stream) body["stream_options"] = {{"include_usage", true}};
    const TestResponse response = server.post("/v1/chat/completions", body);
    EXPECT_EQ(response.body.find("plan"), std::string::npos);
    EXPECT_EQ(response.body.find("reasoning_content"), std::string::npos);
    const Json usage = (stream ? response.events().back() : response.json())["usage"];
    EXPECT_EQ(usage["completion_tokens"], 8);
    EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 6);
  }
}

TEST(Tools, OneCallEndsTheAnswerWhereParallelCallsAreOff) {  // TC-08
  const std::string call = "<tool_call>f</tool_call>";
  for (const size_t piece : {1U, 2U, 50U}) {
    TestServer server(TestServer::plays(call + "\n" + call, piece));
    for (const bool stream : {false, true}) {
      Json body = with(
          chat_body(),
          {{"tools", {function_tool("f")}}, {"parallel_tool_calls", false}, {"stream", stream}});
      if (stream) body["stream_options"] = {{"include_usage", true}};
      const TestResponse response = server.post("/v1/chat/completions", body);
      const Json end = stream ? response.events().end()[-2] : response.json();
      EXPECT_EQ(end["choices"][0]["finish_reason"], "tool_calls");
      const Json usage = (stream ? response.events().back() : response.json())["usage"];
      EXPECT_EQ(usage["completion_tokens"], 3) << "nothing behind the call's end is generated";
      if (!stream) {
        EXPECT_EQ(end["choices"][0]["message"]["tool_calls"].size(), 1U);
      }
    }
    const Json both =
        server.post("/v1/chat/completions", with(chat_body(), {{"tools", {function_tool("f")}}}))
            .json();
    EXPECT_EQ(both["choices"][0]["message"]["tool_calls"].size(), 2U);
  }
}

TEST(Tools, ThatCannotBeChosenAreRefused) {
  TestServer server(TestServer::plays("x"));
  const auto status = [&](const char* choice) {
    return server
        .post("/v1/chat/completions",
              with(chat_body(),
                   {{"tools", {function_tool("f")}}, {"tool_choice", Json::parse(choice)}}))
        .status;
  };
  EXPECT_EQ(status(R"({"type":"function","function":{"name":"f"}})"), 200);
  EXPECT_EQ(status(R"({"type":"function","name":"f"})"), 200);
  EXPECT_EQ(status(R"({"type":"function","function":{"name":"g"}})"), 400);
  EXPECT_EQ(status(R"({"type":"function"})"), 400);
  EXPECT_EQ(status(R"({"function":5})"), 400);
  EXPECT_EQ(status("\"any\""), 400);
  EXPECT_EQ(status("5"), 400);
  const TestResponse search = server.post(
      "/v1/chat/completions", with(chat_body(), {{"tools", {{{"type", "web_search"}}}}}));
  EXPECT_EQ(search.status, 400);
  EXPECT_EQ(search.json()["error"]["param"], "tools[0].type");
}

TEST(Tools, WarnOfWhatIsNotEnforced) {
  TestServer server(TestServer::plays("x"));
  Json strict = function_tool("f");
  strict["function"]["strict"] = true;
  EXPECT_TRUE(warns(server.post("/v1/chat/completions", with(chat_body(), {{"tools", {strict}}})),
                    "strict is not enforced"));
  strict["function"]["strict"] = false;
  EXPECT_FALSE(warns(server.post("/v1/chat/completions", with(chat_body(), {{"tools", {strict}}})),
                     "strict"));
}

// Histories that agents send back.
TEST(Messages, OfAgentsAreRead) {
  TestServer server(TestServer::plays("x"));
  for (const char* messages :
       {R"([{"role":"developer","content":"be brief"},{"role":"user","content":"q"}])",
        R"([{"role":"user","content":"q"},{"role":"assistant","content":null},
               {"role":"user","content":"and?"}])",
        R"([{"role":"user","content":"q"},{"role":"assistant","content":null,
               "refusal":null,"audio":null,"function_call":null,"annotations":[],
               "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":""}}]},
               {"role":"tool","tool_call_id":"1","name":"f","content":""}])",
        R"([{"role":"user","name":"ann","content":[
               {"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}])",
        R"([{"role":"user","content":""}])"}) {
    const TestResponse response =
        server.post("/v1/chat/completions", {{"messages", Json::parse(messages)}});
    EXPECT_EQ(response.status, 200) << messages << response.body;
  }
  const Json image = Json::parse(R"([{"role":"user","content":[{"type":"text","text":"see"},
      {"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}])");
  const TestResponse refused = server.post("/v1/chat/completions", {{"messages", image}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "messages[0].content[1]");
  EXPECT_NE(refused.body.find("image_url"), std::string::npos);
  const Json legacy = Json::parse(R"([{"role":"user","content":"q"},{"role":"assistant",
      "content":null,"function_call":{"name":"f","arguments":"{}"}}])");
  EXPECT_EQ(server.post("/v1/chat/completions", {{"messages", legacy}}).status, 400)
      << "the call would be lost";
}

TEST(Models, KeepTheirCreationTime) {
  TestServer server(TestServer::plays("x"));
  const Json first = server.get("/v1/models").json();
  EXPECT_EQ(first["data"][0]["created"], server.service().started());
  EXPECT_EQ(first["data"].size(), 2U);
  EXPECT_EQ(first["data"][1]["id"], "other-name");
  EXPECT_EQ(first["data"][1]["max_model_len"], 512);
}

TEST(Tokenize, SaysWhatIsMissingAndWhatIsUnknown) {
  TestServer server(TestServer::plays("x"));
  EXPECT_NE(server.post("/tokenize", {{"text", "x"}}).body.find("prompt or messages"),
            std::string::npos);
  const TestResponse typo = server.post("/tokenize", {{"prompt", "x"}, {"add_special_token", 0}});
  EXPECT_EQ(typo.headers.at("x-baton-unknown-fields"), "add_special_token");
  EXPECT_EQ(server.post("/detokenize", {{"tokens", {97}}, {"skip", true}})
                .headers.at("x-baton-unknown-fields"),
            "skip");
  EXPECT_FALSE(server.post("/tokenize", with(chat_body(), {{"add_special_tokens", false}}))
                   .headers.contains("x-baton-unknown-fields"));
}

}  // namespace
}  // namespace baton
