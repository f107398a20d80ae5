// For tests: the whole server on a loopback port, over a FakeEngine and a tiny tokenizer whose
// token b is the byte b.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/routes.h"
#include "server/service.h"
#include "server/testing/fake_engine.h"
#include "server/testing/http_client.h"
#include "text/output_choice.h"
#include "text/tiny_tokenizer.h"

namespace baton {

// Token ids of the tiny chat format.
inline constexpr int32_t kUserToken = 1004;
inline constexpr int32_t kAssistantToken = 1005;
inline constexpr int32_t kThink = 1007;
inline constexpr int32_t kThinkEnd = 1008;
inline constexpr int32_t kCall = 1009;
inline constexpr int32_t kCallEnd = 1010;
inline constexpr int32_t kKey = 1013;
inline constexpr int32_t kKeyEnd = 1014;
inline constexpr int32_t kValue = 1015;
inline constexpr int32_t kValueEnd = 1016;

// Text as byte tokens, with the tags of the output format as their tokens.
inline std::vector<int32_t> play(std::string_view text) {
  static const std::vector<std::pair<std::string_view, int32_t>> kTags = {
      {"<think>", kThink},
      {"</think>", kThinkEnd},
      {"<tool_call>", kCall},
      {"</tool_call>", kCallEnd},
      {"<arg_key>", kKey},
      {"</arg_key>", kKeyEnd},
      {"<arg_value>", kValue},
      {"</arg_value>", kValueEnd}};
  std::vector<int32_t> ids;
  while (!text.empty()) {
    bool tag = false;
    for (const auto& [name, id] : kTags) {
      if (!text.starts_with(name)) continue;
      ids.push_back(id);
      text.remove_prefix(name.size());
      tag = true;
      break;
    }
    if (tag) continue;
    ids.push_back(static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
  return ids;
}

inline Json chat_tokenizer_json() {
  Json file = tiny_tokenizer_json();
  int32_t id = kKey;
  for (const char* tag : {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}) {
    file["added_tokens"].push_back(added_token_json(id++, tag, false));
  }
  return file;
}

// <|user|>text<|assistant|>: enough of a template for the server's own tests.
inline Result<std::vector<int32_t>> tiny_chat_prompt(const Conversation& conversation) {
  std::vector<int32_t> ids = {1000, 1001};
  for (const Json& message : conversation.messages) {
    ids.push_back(message["role"] == "assistant" ? kAssistantToken : kUserToken);
    for (const char c : message["content"].get<std::string>()) {
      ids.push_back(static_cast<unsigned char>(c));
    }
  }
  ids.push_back(kAssistantToken);
  const Json& arguments = conversation.template_arguments;
  if (arguments.contains("enable_thinking")) {
    ids.push_back(arguments["enable_thinking"].get<bool>() ? kThink : kThinkEnd);
  }
  return ids;
}

class TestServer {
 public:
  static ServiceOptions default_options() {
    ServiceOptions options;
    options.model_names = {"tiny", "other-name"};
    return options;
  }

  explicit TestServer(FakeEngine::Script script,
                      ServiceOptions options = default_options(),
                      HttpLimits limits = {},
                      bool ready = true)
      : tokenizer_(tiny_tokenizer(chat_tokenizer_json())),
        engine_(std::make_unique<FakeEngine>(std::move(script))),
        service_(std::make_unique<Service>(std::move(options))) {
    auto server = open_api_server(*service_, {"127.0.0.1", 0, ""}, limits, 2);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    service_->connections = [this] { return server_->connections(); };
    if (ready) set_ready();
  }
  ~TestServer() {
    server_->stop();
    service_->workers().close();
    engine_.reset();
    server_.reset();
  }

  // Plays one text to every request.
  static FakeEngine::Script plays(std::string text, size_t piece = 1) {
    return [tokens = play(text), piece](const Request&) {
      FakeEngine::Play play;
      play.tokens = tokens;
      play.piece = piece;
      return play;
    };
  }
  // Plays `text` again and again, a token every `step`.
  static FakeEngine::Script plays_forever(std::string text, std::chrono::milliseconds step) {
    return [tokens = play(text), step](const Request&) {
      FakeEngine::Play play;
      play.tokens = tokens;
      play.step = step;
      play.forever = true;
      return play;
    };
  }

  void set_ready() {
    ServedModel model;
    model.engine = engine_.get();
    model.tokenizer = tokenizer_.get();
    model.chat_prompt = &tiny_chat_prompt;
    model.max_model_len = 512;
    model.vocab_size = 1020;
    model.parse_reasoning = true;
    model.tool_calls = find_tool_call_format("glm47");
    model.tags = output_tags_of(*tokenizer_, model.tool_calls);
    service_->set_ready(std::move(model));
  }

  uint16_t port() const { return server_->port(); }
  Service& service() { return *service_; }
  FakeEngine& engine() { return *engine_; }
  HttpServer& http() { return *server_; }
  TestResponse post(const std::string& path, const Json& body) {
    return TestClient(port()).post(path, body);
  }
  TestResponse get(const std::string& path) { return TestClient(port()).get(path); }

  // Polls until `condition`, for at most `seconds`.
  template <typename Condition>
  static bool eventually(Condition condition, double seconds = 5.0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
};

inline Json chat_body(const std::string& text = "hi") {
  return {{"model", "tiny"}, {"messages", Json::array({{{"role", "user"}, {"content", text}}})}};
}

}  // namespace baton
