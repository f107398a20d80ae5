#include "chat_session.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "layered_options.h"
#include "line_editor.h"

namespace baton {
namespace {

constexpr const char* kHelp =
    "  /clear        forget the conversation\n"
    "  /system TEXT  forget it, and begin with this system message\n"
    "  /help         this\n"
    "  /quit         leave, as Ctrl-D does\n"
    "Ctrl-C stops an answer. Alt-Enter or Ctrl-J begins a new line; pasted text keeps its lines.\n";

std::atomic<bool> interrupted = false;
pthread_t session_thread;

// Whichever thread gets the signal, the session's is the one whose system call it must end.
void on_interrupt(int number) {
  interrupted = true;
  if (pthread_equal(pthread_self(), session_thread) == 0) pthread_kill(session_thread, number);
}

// While an answer is written, Ctrl-C is a wish to stop it.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted = false;
    session_thread = pthread_self();
    struct sigaction action {};
    action.sa_handler = &on_interrupt;
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ {};
};

bool to_terminal() {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  return terminal;
}

bool with_colour() {
  static const bool colour = [] {
    const char* none = std::getenv("NO_COLOR");
    const char* kind = std::getenv("TERM");
    return to_terminal() && (none == nullptr || *none == '\0') &&
           (kind == nullptr || std::string_view(kind) != "dumb");
  }();
  return colour;
}

void note(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, with_colour() ? "\x1b[2m[%s]\x1b[0m\n" : "[%s]\n", text.c_str());
}

// One answer on its way to the terminal. Reasoning is for people: dim, and not in a pipe.
class AnswerPrinter {
 public:
  void reasoning(const std::string& text) {
    if (!to_terminal() || text.empty()) return;
    if (!in_reasoning_) raw(with_colour() ? "\x1b[2m" : "(thinking) ");
    in_reasoning_ = true;
    print_text(text);
  }
  void content(const std::string& text) {
    if (text.empty()) return;
    end_reasoning("\n");
    content_ += text;
    print_text(text);
  }
  void finish(const std::string& reason) {
    if (!reason.empty()) finish_reason_ = reason;
  }
  void end() {
    end_reasoning("");
    raw("\n");
    if (finish_reason_ == "length" && to_terminal()) {
      note("cut off: --max-tokens or the context is used up");
    }
  }
  const std::string& said() const { return content_; }

 private:
  static void raw(const char* text) { std::fputs(text, stdout); }
  void end_reasoning(const char* behind) {
    if (!in_reasoning_) return;
    raw(with_colour() ? "\x1b[0m" : "");
    raw(behind);
    in_reasoning_ = false;
  }

  bool in_reasoning_ = false;
  std::string content_;
  std::string finish_reason_;
};

// Streams one answer and returns its content; what was said before Ctrl-C, too.
Result<std::string> answer(ApiClient& client, const ChatSettings& settings, const Json& messages) {
  Json body = settings.request;
  body.update({{"messages", messages}, {"stream", true}});
  AnswerPrinter printer;
  Status streamed = client.stream("/v1/chat/completions", body, [&](const Json& event) {
    printer.reasoning(string_at(event, "/choices/0/delta/reasoning_content"));
    printer.content(string_at(event, "/choices/0/delta/content"));
    printer.finish(string_at(event, "/choices/0/finish_reason"));
    return !interrupted;
  });
  printer.end();
  if (interrupted) note("stopped");
  if (!streamed && !interrupted) return streamed.error();
  return printer.said();
}

class Conversation {
 public:
  explicit Conversation(const std::string& system) { begin(system); }

  void begin(const std::string& system) {
    messages_ = Json::array();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
    system_ = system;
  }
  const std::string& system() const { return system_; }

  // False: there was no answer, and the turn is as if it had not been.
  bool turn(ApiClient& client, const ChatSettings& settings, const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    Result<std::string> said = answer(client, settings, messages_);
    if (said && !(interrupted && said->empty())) {
      messages_.push_back({{"role", "assistant"}, {"content", *said}});
      return true;
    }
    messages_.erase(messages_.size() - 1);
    if (!said) fail_with(said.error().message);
    return said.has_value();
  }

 private:
  Json messages_;
  std::string system_;
};

enum class Command { kNone, kDone, kQuit };

// A first word like /help; a path such as /etc/hosts is text.
Command obey(const std::string& line, Conversation& conversation) {
  const size_t end = std::min(line.find_first_of(" \n"), line.size());
  const std::string name = line.substr(0, end);
  if (name == "/quit" || name == "/exit" || name == "/bye") return Command::kQuit;
  if (name == "/help" || name == "/?") {
    std::fputs(kHelp, stdout);
  } else if (name == "/clear") {
    conversation.begin(conversation.system());
  } else if (name == "/system") {
    conversation.begin(end < line.size() ? line.substr(end + 1) : "");
  } else if (end == line.size() && name[0] == '/' && name.find('/', 1) == std::string::npos) {
    std::printf("no command %s; /help lists them\n", name.c_str());
  } else {
    return Command::kNone;
  }
  std::fflush(stdout);
  return Command::kDone;
}

// "baton-mini, context of 16384 tokens"; an error where there is no server.
Result<std::string> greeting(ApiClient& client) {
  Result<Json> models = client.get("/v1/models");
  if (!models) return models.error();
  const Json data = models->value("data", Json::array());
  if (data.empty()) return std::string("no model");
  std::string text = data[0].value("id", "");
  if (const Json length = data[0].value("max_model_len", Json()); length.is_number()) {
    text += ", context of " + length.dump() + " tokens";
  }
  return text + ". /help lists commands, Ctrl-D leaves.";
}

int converse(ApiClient& client, const ChatSettings& settings) {
  LineEditor editor("> ");
  if (editor.interactive()) {
    Result<std::string> text = greeting(client);
    if (!text) {
      fail_with(text.error().message);
      return 1;
    }
    std::printf("%s\n", text->c_str());
  }
  Conversation conversation(settings.system);
  bool answered = true;
  while (std::optional<std::string> line = editor.read()) {
    line->resize(line->find_last_not_of(" \t\n") + 1);  // as pasted text often ends
    if (line->empty()) continue;
    if (editor.interactive()) {
      const Command command = obey(*line, conversation);
      if (command == Command::kQuit) return 0;
      if (command == Command::kDone) continue;
    }
    std::optional<InterruptScope> stoppable;
    if (editor.interactive()) stoppable.emplace();
    answered = conversation.turn(client, settings, *line) && answered;
  }
  return editor.interactive() || answered ? 0 : 1;
}

}  // namespace

int run_chat_session(ApiClient& client, const ChatSettings& settings) {
  if (settings.prompt.empty()) return converse(client, settings);
  return Conversation(settings.system).turn(client, settings, settings.prompt) ? 0 : 1;
}

void print_text(const std::string& text) {
  if (!to_terminal()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte >= ' ' && byte != 0x7f) || c == '\n' || c == '\t') std::fputc(c, stdout);
    }
  }
  std::fflush(stdout);
}

}  // namespace baton
