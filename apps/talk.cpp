// baton chat and baton complete: a model in the terminal, in this process or behind --url.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>

#include "api_client.h"
#include "engine_options.h"
#include "layered_options.h"
#include "local_server.h"
#include "verbs.h"

namespace baton {
namespace {

struct TalkFlags {
  EngineFlags engine;
  std::string url;
  std::string api_key;
  std::string model_name;
  std::string system;
  std::string prompt;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> request_seed;
  bool show_reasoning = true;
};

void add_talk_options(CLI::App& app, TalkFlags& flags) {
  add_engine_options(app, flags.engine);
  app.add_option("--url", flags.url, "a running server, http://host:port, instead of a folder");
  app.add_option("--api-key", flags.api_key, "key for that server");
  app.add_option("--model-name", flags.model_name, "name of the model on that server");
  app.add_option("--prompt", flags.prompt, "ask once and end; else read from standard input");
  app.add_option("--temperature", flags.temperature, "sampling temperature");
  app.add_option("--top-p", flags.top_p, "nucleus");
  app.add_option("--max-tokens", flags.max_tokens, "tokens of an answer");
  app.add_option("--request-seed", flags.request_seed, "seed of every answer");
}

void add_sampling(const TalkFlags& flags, Json& body) {
  if (!flags.model_name.empty()) body["model"] = flags.model_name;
  if (flags.temperature) body["temperature"] = *flags.temperature;
  if (flags.top_p) body["top_p"] = *flags.top_p;
  if (flags.max_tokens) body["max_tokens"] = *flags.max_tokens;
  if (flags.request_seed) body["seed"] = *flags.request_seed;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Streams one answer to the terminal and returns its content.
Result<std::string> answer_chat(ApiClient& client, const TalkFlags& flags, const Json& messages) {
  Json body = {{"messages", messages}, {"stream", true}};
  add_sampling(flags, body);
  std::string content;
  bool in_reasoning = false;
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  Status streamed = client.stream("/v1/chat/completions", body, [&](const Json& event) {
    const std::string reasoning = string_at(event, "/choices/0/delta/reasoning_content");
    if (!reasoning.empty() && flags.show_reasoning && terminal) {
      if (!in_reasoning) print("\x1b[2m");
      in_reasoning = true;
      print(reasoning);
    }
    const std::string piece = string_at(event, "/choices/0/delta/content");
    if (piece.empty()) return true;
    if (in_reasoning) print("\x1b[0m\n");
    in_reasoning = false;
    content += piece;
    print(piece);
    return true;
  });
  if (in_reasoning) print("\x1b[0m");
  print("\n");
  if (!streamed) return streamed.error();
  return content;
}

int chat_loop(ApiClient& client, const TalkFlags& flags) {
  Json messages = Json::array();
  if (!flags.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.system}});
  const bool once = !flags.prompt.empty();
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::string line = flags.prompt;
  while (true) {
    if (!once) {
      if (terminal) print("> ");
      if (!std::getline(std::cin, line)) break;
      if (line.empty()) continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    Result<std::string> content = answer_chat(client, flags, messages);
    if (!content) {
      fail_with(content.error().message);
      if (once) return 1;
      messages.erase(messages.size() - 1);
      continue;
    }
    if (once) return 0;
    messages.push_back({{"role", "assistant"}, {"content", *content}});
  }
  return 0;
}

int complete_once(ApiClient& client, const TalkFlags& flags) {
  std::string prompt = flags.prompt;
  if (prompt.empty()) {
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  Json body = {{"prompt", prompt}, {"stream", true}};
  if (!flags.max_tokens) body["max_tokens"] = nullptr;
  add_sampling(flags, body);
  Status streamed = client.stream("/v1/completions", body, [](const Json& event) {
    print(string_at(event, "/choices/0/text"));
    return true;
  });
  print("\n");
  if (!streamed) {
    fail_with(streamed.error().message);
    return 1;
  }
  return 0;
}

int talk(int argc,
         char** argv,
         const char* about,
         const char* name,
         bool has_system,
         int (*run)(ApiClient&, const TalkFlags&)) {
  CLI::App app(about, name);
  TalkFlags flags;
  flags.engine.log_level = "warning";
  flags.engine.max_num_seqs = 4;
  add_talk_options(app, flags);
  if (has_system) app.add_option("--system", flags.system, "system message");
  LayeredOptions options(app);
  if (const auto code = options.parse(argc, argv)) return *code;
  if (Status status = install_log(flags.engine.log_level); !status) {
    return fail_with(status.error().message);
  }
  std::unique_ptr<LocalServer> local;
  ServerAddress address;
  if (!flags.url.empty()) {
    Result<ServerAddress> parsed = parse_url(flags.url);
    if (!parsed) return fail_with("--url: " + parsed.error().message);
    address = *parsed;
  } else {
    if (Status status = check_engine_flags(flags.engine); !status) {
      return fail_with(status.error().message);
    }
    Result<std::unique_ptr<LocalServer>> started = LocalServer::start(flags.engine);
    if (!started) return fail_with(started.error().message);
    local = std::move(*started);
    address = local->address();
  }
  ApiClient client(address, flags.api_key);
  return run(client, flags);
}

}  // namespace

int run_chat(int argc, char** argv) {
  return talk(argc, argv, "Chat with a model in the terminal.", "baton chat", true, &chat_loop);
}

int run_complete(int argc, char** argv) {
  return talk(
      argc, argv, "Let a model go on with a text.", "baton complete", false, &complete_once);
}

}  // namespace baton
