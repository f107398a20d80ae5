// A conversation in the terminal: what a person types, commands among it, and the answers as they
// are written. Ctrl-C ends an answer, not the conversation; a server that fails costs one turn.
#pragma once

#include <string>

#include "api_client.h"
#include "base/json.h"

namespace baton {

struct ChatSettings {
  Json request = Json::object();  // what every request carries: model, temperature, ...
  std::string system;
  std::string prompt;  // ask this and end; empty: a conversation
};

// The exit code.
int run_chat_session(ApiClient& client, const ChatSettings& settings);

// To the terminal at once; a model's text moves no cursor there.
void print_text(const std::string& text);

}  // namespace baton
