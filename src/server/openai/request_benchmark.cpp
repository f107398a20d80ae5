// What a chat request costs before the engine sees it, by its parts, on one thread. The body is an
// agent's history as in shared traces of coding agents: tools, then calls and results of sources.
//   request_benchmark MODEL_DIR [Google Benchmark flags], from the repository root
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/openai/chat_messages.h"
#include "server/openai/json_body.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace baton {
namespace {

// All sources, one after the other, in a fixed order.
std::string source_text() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("src")) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    if (const Result<std::string> source = read_file(path.string())) text += *source;
  }
  return text;
}

Json tools() {
  Json list = Json::array();
  for (int i = 0; i < 20; ++i) {
    Json parameters = {{"type", "object"}, {"properties", Json::object()}, {"required", {"path"}}};
    for (const char* name : {"path", "pattern", "content", "limit"}) {
      parameters["properties"][name] = {{"type", "string"}, {"description", std::string(120, 'd')}};
    }
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", "tool_" + std::to_string(i)},
                      {"description", std::string(1500, 'd')},
                      {"parameters", std::move(parameters)}}}});
  }
  return list;
}

// Turns of about 800 bytes of call and 3,000 of result, until the body has `bytes`.
std::string agent_body(size_t bytes) {
  static const std::string text = source_text();
  Json messages = Json::array({{{"role", "system"}, {"content", text.substr(0, 11000)}}});
  size_t at = 0;
  const auto take = [&](size_t count) {
    at = at + count < text.size() ? at : 0;
    at += count;
    return text.substr(at - count, count);
  };
  for (int i = 0; messages.dump().size() + 60000 < bytes;) {
    for (const int last = i + 50; i < last; ++i) {
      const std::string id = "call_" + std::to_string(i);
      const Json arguments = {{"path", "src/" + id}, {"content", take(600)}};
      messages.push_back(
          {{"role", "assistant"},
           {"content", take(200)},
           {"tool_calls",
            {{{"id", id},
              {"type", "function"},
              {"function", {{"name", "tool_3"}, {"arguments", arguments.dump()}}}}}}});
      messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", take(3000)}});
    }
  }
  return Json({{"model", "m"},
               {"messages", std::move(messages)},
               {"tools", tools()},
               {"stream", true},
               {"max_tokens", 4096}})
      .dump();
}

Conversation conversation_of(const Json& body) {
  Fields fields(body);
  size_t bytes = 0;
  return read_chat_prompt(fields, bytes);
}

void add_benchmarks(const std::string& size,
                    const std::string& body,
                    const Tokenizer& tokenizer,
                    const ChatTemplate& chat_template) {
  const auto add = [&](const std::string& part, auto run) {
    benchmark::RegisterBenchmark((part + "/" + size).c_str(), [=](benchmark::State& state) {
      for (auto _ : state) run();
      state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(body.size()));
    })->Unit(benchmark::kMillisecond);
  };
  add("parse", [&] { benchmark::DoNotOptimize(parse_json_body(body)); });
  add("parse_nlohmann", [&] { benchmark::DoNotOptimize(parse_json(body, "body")); });
  const Json parsed = *parse_json(body, "body");
  add("read", [=] { benchmark::DoNotOptimize(conversation_of(parsed)); });
  const Conversation conversation = conversation_of(parsed);
  ChatTemplateInputs inputs;
  inputs.messages = conversation.messages;
  inputs.tools = conversation.tools;
  add("render", [=, &chat_template] { benchmark::DoNotOptimize(chat_template.render(inputs)); });
  const ChatPrompt prompt = *chat_template.render(inputs);
  add("tokenise",
      [=, &tokenizer] { benchmark::DoNotOptimize(encode_chat_prompt(tokenizer, prompt)); });
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: request_benchmark MODEL_DIR\n");
    return 2;
  }
  const auto tokenizer = Tokenizer::load(argv[1]);
  const auto chat_template = ChatTemplate::load(argv[1]);
  if (!tokenizer || !chat_template) {
    std::fprintf(stderr, "%s: no tokenizer or no chat template\n", argv[1]);
    return 1;
  }
  const std::string small = agent_body(400'000);
  const std::string large = agent_body(4'000'000);
  add_benchmarks("400KB", small, **tokenizer, *chat_template);
  add_benchmarks("4MB", large, **tokenizer, *chat_template);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  return baton::run(argc, argv);
}
