// baton chat and baton complete: a model in the terminal, in this process or behind --url.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>

#include "api_client.h"
#include "chat_session.h"
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
};

void add_talk_options(CLI::App& app, TalkFlags& flags) {
  app.add_option("--prompt", flags.prompt, "ask once and end; else read from standard input");
  app.add_option("--temperature", flags.temperature, "sampling temperature; 0: greedy");
  app.add_option("--top-p", flags.top_p, "nucleus");
  app.add_option("--max-tokens", flags.max_tokens, "tokens of an answer; else what fits");
  app.add_option("--request-seed", flags.request_seed, "seed of every answer");
  app.add_option("--url", flags.url, "a running server, http://host:port, instead of a folder");
  app.add_option("--api-key", flags.api_key, "key for that server");
  app.add_option("--model-name", flags.model_name, "name of the model on that server");
}

// What every request carries.
Json request_of(const TalkFlags& flags) {
  Json body = Json::object();
  if (!flags.model_name.empty()) body["model"] = flags.model_name;
  if (flags.temperature) body["temperature"] = *flags.temperature;
  if (flags.top_p) body["top_p"] = *flags.top_p;
  if (flags.max_tokens) body["max_tokens"] = *flags.max_tokens;
  if (flags.request_seed) body["seed"] = *flags.request_seed;
  return body;
}

int chat(ApiClient& client, const TalkFlags& flags) {
  return run_chat_session(client, {request_of(flags), flags.system, flags.prompt});
}

int complete(ApiClient& client, const TalkFlags& flags) {
  std::string prompt = flags.prompt;
  if (prompt.empty()) {
    if (isatty(STDIN_FILENO) != 0) {
      std::fputs("The text to go on with, then Ctrl-D:\n", stderr);
    }
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  Json body = {{"prompt", prompt}, {"stream", true}, {"max_tokens", nullptr}};
  body.update(request_of(flags));
  Status streamed = client.stream("/v1/completions", body, [](const Json& event) {
    print_text(string_at(event, "/choices/0/text"));
    return true;
  });
  print_text("\n");
  if (streamed) return 0;
  fail_with(streamed.error().message);
  return 1;
}

// The server behind --url, or one of our own in this process, kept in `local`.
Result<ServerAddress> find_server(const TalkFlags& flags, std::unique_ptr<LocalServer>& local) {
  if (!flags.url.empty()) {
    if (!flags.engine.model.empty()) {
      return invalid_argument("expected a folder or --url, got both");
    }
    Result<ServerAddress> parsed = parse_url(flags.url);
    if (!parsed) return invalid_argument("--url: " + parsed.error().message);
    return parsed;
  }
  if (flags.engine.model.empty()) {
    return invalid_argument("expected a checkpoint folder, or --url of a running server");
  }
  if (Status status = check_engine_flags(flags.engine); !status) return status.error();
  Result<std::unique_ptr<LocalServer>> started = LocalServer::start(flags.engine);
  if (!started) return started.error();
  local = std::move(*started);
  return local->address();
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
  app.option_defaults()->group("Model and engine, without --url");
  add_engine_options(app, flags.engine);
  app.option_defaults()->group("Options");
  LayeredOptions options(app);
  if (const auto code = options.parse(argc, argv)) return *code;
  flags.engine.compat = options.compat();
  if (Status status = install_log(flags.engine.log_level); !status) {
    return fail_with(status.error().message);
  }
  std::unique_ptr<LocalServer> local;
  Result<ServerAddress> address = find_server(flags, local);
  if (!address) return fail_with(address.error().message);
  ApiClient client(*address, flags.api_key);
  return run(client, flags);
}

}  // namespace

int run_chat(int argc, char** argv) {
  return talk(argc, argv, "Chat with a model in the terminal.", "baton chat", true, &chat);
}

int run_complete(int argc, char** argv) {
  return talk(argc, argv, "Let a model go on with a text.", "baton complete", false, &complete);
}

}  // namespace baton
