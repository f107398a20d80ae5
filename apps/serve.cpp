// baton serve: the HTTP server. The port opens first, so that probes get an answer while the
// model is loading.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <tuple>

#include "base/log.h"
#include "engine_options.h"
#include "layered_options.h"
#include "open_files.h"
#include "server/cors.h"
#include "server/http/server.h"
#include "server/routes.h"
#include "server/status_pages.h"
#include "signals.h"
#include "verbs.h"

namespace baton {
namespace {

struct ServeFlags {
  EngineFlags engine;
  std::vector<std::string> served_model_names;
  std::string host = "0.0.0.0";
  int port = 8000;
  std::string unix_socket;
  std::string api_key;
  std::string allowed_origins = "*";
  int http_threads = 2;
  int worker_threads = 2;
  int max_connections = 8192;
  std::string max_body_bytes = "64M";
  double drain_timeout = 30.0;
  double stall_timeout = 120.0;
  double ping_interval = 10.0;
  bool strict_requests = false;
  bool auto_tool_choice = true;
};

void add_serve_options(CLI::App& app, ServeFlags& flags) {
  add_engine_options(app, flags.engine);
  app.add_option("--served-model-name",
                 flags.served_model_names,
                 "names clients may use; the first is the one in answers");
  app.add_option("--host", flags.host, "address to listen on")->capture_default_str();
  app.add_option("--port", flags.port, "port to listen on; 0: any free one")->capture_default_str();
  app.add_option("--uds", flags.unix_socket, "Unix socket to listen on instead");
  app.add_option("--api-key", flags.api_key, "key that clients must send");
  app.add_option("--allowed-origins",
                 flags.allowed_origins,
                 "web pages that may use the API: *, or origins with commas or as a JSON list")
      ->join(',')
      ->capture_default_str();
  app.add_option("--http-threads", flags.http_threads, "threads that move bytes")
      ->capture_default_str();
  app.add_option("--worker-threads", flags.worker_threads, "threads that parse and tokenise")
      ->capture_default_str();
  app.add_option("--max-connections", flags.max_connections, "open connections")
      ->capture_default_str();
  app.add_option("--max-body-bytes", flags.max_body_bytes, "largest request body")
      ->capture_default_str();
  app.add_option("--drain-timeout",
                 flags.drain_timeout,
                 "seconds that running requests have after the first SIGTERM")
      ->capture_default_str();
  app.add_option("--stall-timeout",
                 flags.stall_timeout,
                 "seconds without a finished step after which /health fails")
      ->capture_default_str();
  app.add_option("--ping-interval",
                 flags.ping_interval,
                 "seconds of silence after which a stream gets a comment")
      ->capture_default_str();
  app.add_flag("--strict-requests", flags.strict_requests, "unknown request fields are a 400")
      ->default_str(flags.strict_requests ? "true" : "false");
  app.add_flag("--enable-auto-tool-choice,!--no-enable-auto-tool-choice",
               flags.auto_tool_choice,
               "parse tool calls (on where the model has them)")
      ->default_str(flags.auto_tool_choice ? "true" : "false");
}

constexpr int kOwnFiles = 48;  // of the process: weights, threads, logs, and connections refused
constexpr int kMaxThreads = 1024;
constexpr int kMaxConnections = 1'000'000;
constexpr double kMinSeconds = 0.001;
constexpr double kMaxSeconds = 1e6;

template <typename T>
Status check_range(const char* name, T value, T least, T most) {
  if (value >= least && value <= most) return {};  // nan is in no range
  std::ostringstream message;
  message << "--" << name << ": expected " << least << " to " << most << ", got " << value;
  return invalid_argument(message.str());
}

Status check_serve_flags(const ServeFlags& flags) {
  if (flags.port < 0 || flags.port > 65535) {
    return invalid_argument("--port: expected 0 to 65535, got " + std::to_string(flags.port));
  }
  for (const auto& [name, value, most] :
       {std::tuple{"http-threads", flags.http_threads, kMaxThreads},
        {"worker-threads", flags.worker_threads, kMaxThreads},
        {"max-connections", flags.max_connections, kMaxConnections}}) {
    if (Status status = check_range(name, value, 1, most); !status) return status;
  }
  for (const auto& [name, value, least] : {std::tuple{"drain-timeout", flags.drain_timeout, 0.0},
                                           {"stall-timeout", flags.stall_timeout, kMinSeconds},
                                           {"ping-interval", flags.ping_interval, kMinSeconds}}) {
    if (Status status = check_range(name, value, least, kMaxSeconds); !status) return status;
  }
  Result<int64_t> size = parse_human_size(flags.max_body_bytes);
  if (!size) return invalid_argument("--max-body-bytes: " + size.error().message);
  if (*size < 1) return invalid_argument("--max-body-bytes: expected at least 1");
  if (auto origins = parse_origins(flags.allowed_origins); !origins) {
    return invalid_argument("--allowed-origins: " + origins.error().message);
  }
  return check_engine_flags(flags.engine);
}

ServiceOptions service_options_of(const ServeFlags& flags) {
  ServiceOptions options;
  options.model_names = flags.served_model_names;
  if (options.model_names.empty()) {
    const std::filesystem::path folder(flags.engine.model);
    const std::string last =
        (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    options.model_names = {last.empty() ? flags.engine.model : last};
    if (last != flags.engine.model) options.model_names.push_back(flags.engine.model);
  }
  options.api_key = flags.api_key;
  options.allowed_origins = *parse_origins(flags.allowed_origins);
  options.strict_requests = flags.strict_requests;
  options.stall_seconds = flags.stall_timeout;
  options.worker_threads = flags.worker_threads;
  options.max_queued_requests = flags.engine.max_queued_requests;
  return options;
}

HttpLimits http_limits_of(const ServeFlags& flags) {
  HttpLimits limits;
  limits.max_body_bytes = static_cast<size_t>(*parse_human_size(flags.max_body_bytes));
  limits.ping_seconds = flags.ping_interval;
  limits.max_connections = flags.max_connections;
  // Beyond the limit a connection could not even be refused: it would hang.
  const int room = std::max(1, raise_open_file_limit() - kOwnFiles);
  if (room < limits.max_connections) {
    log_warning("the limit on open files leaves room for " + std::to_string(room) +
                " connections, fewer than --max-connections " +
                std::to_string(limits.max_connections));
    limits.max_connections = room;
  }
  return limits;
}

bool wait_for_answers(const HttpServer& server, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (server.answering() > 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

void drain(Service& service, const HttpServer& server, double seconds) {
  log_info("draining: " + std::to_string(service.active()) + " requests are running");
  service.begin_drain();
  if (wait_for_answers(server, seconds)) return;
  service.abort_all("the server is shutting down");
  wait_for_answers(server, 2.0);
}

// The first thing a newcomer needs, on stdout: the log is on stderr.
void print_how_to_talk(const ServeFlags& flags, uint16_t port, const Service& service, bool chats) {
  const bool unix_socket = !flags.unix_socket.empty();
  const bool any = flags.host == "0.0.0.0" || flags.host == "::" || flags.host == "[::]";
  const std::string url =
      "http://" +
      (unix_socket ? "localhost" : HttpAddress{any ? "localhost" : flags.host, port, {}}.name());
  const std::string& name = service.options().model_names[0];
  const std::string curl =
      "curl -sN " + (unix_socket ? "--unix-socket " + flags.unix_socket + " " : "");
  const std::string key = flags.api_key.empty() ? "" : " -H 'Authorization: Bearer YOUR_API_KEY'";
  std::string text = "\ntalk to it:\n";
  if (chats && !unix_socket) text += "  baton chat --url " + url + "\n";
  text += "  " + curl + url + (chats ? "/v1/chat/completions" : "/v1/completions") + key +
          " \\\n    -d '{\"model\": \"" + name + "\", \"stream\": true, " +
          (chats ? R"("messages": [{"role": "user", "content": "Hello! Who are you?"}]}')"
                 : R"("prompt": "Hello", "max_tokens": 16}')") +
          "\nor with any OpenAI client: base_url " + url + "/v1\n\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// Returns the exit code.
int run_until_asked(Service& service,
                    const HttpServer& server,
                    const Engine& engine,
                    Signals& signals,
                    double drain_seconds) {
  while (!signals.wait(0.25)) {
    if (engine.alive()) continue;
    log_error("the engine has stopped; ending, so that a supervisor can start anew");
    service.abort_all("the engine has stopped");
    wait_for_answers(server, 5.0);
    return 1;
  }
  drain(service, server, drain_seconds);
  return 0;
}

int serve(const ServeFlags& flags) {
  Signals signals;
  Service service(service_options_of(flags));
  HttpAddress address{flags.host, static_cast<uint16_t>(flags.port), flags.unix_socket};
  Result<std::unique_ptr<HttpServer>> server =
      open_api_server(service, address, http_limits_of(flags), flags.http_threads);
  if (!server) return fail_with(server.error().message);
  service.connections = [&server] { return (*server)->connections(); };
  address.port = (*server)->port();
  log_info("listening on " + address.name() + ", loading " + flags.engine.model);

  // Nothing runs yet, so nothing needs to be waited for.
  signals.on_first([] { std::_Exit(0); });
  Result<std::unique_ptr<LoadedEngine>> loaded = load_engine(flags.engine);
  if (!loaded) {
    (*server)->stop();
    service.workers().close();
    return fail_with(loaded.error().message);
  }
  signals.on_first(nullptr);
  ServedModel served = (*loaded)->served;
  if (!flags.auto_tool_choice) served.tool_calls = nullptr;
  const bool chats = served.chat_prompt != nullptr;
  service.set_ready(std::move(served));
  log_info("ready: serving " + service.options().model_names[0] + " with a context of " +
           std::to_string((*loaded)->served.max_model_len) + " tokens");
  print_how_to_talk(flags, (*server)->port(), service, chats);

  const int code =
      run_until_asked(service, **server, *(*loaded)->engine, signals, flags.drain_timeout);
  // HTTP first, then what it talks to; the engine's last words still need the server's memory.
  (*server)->stop();
  service.workers().close();
  (*loaded)->engine.reset();
  log_info("stopped");
  return code;
}

}  // namespace

int run_serve(int argc, char** argv) {
  CLI::App app("Serve a model over HTTP with the OpenAI API.", "baton serve");
  ServeFlags flags;
  add_serve_options(app, flags);
  LayeredOptions options(app);
  if (const auto code = options.parse(argc, argv)) return *code;
  flags.engine.compat = options.compat();
  if (Status status = install_log(flags.engine.log_level); !status) {
    return fail_with(status.error().message);
  }
  if (Status status = check_serve_flags(flags); !status) return fail_with(status.error().message);
  return serve(flags);
}

}  // namespace baton
