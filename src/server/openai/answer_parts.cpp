#include "server/openai/answer_parts.h"

#include <algorithm>
#include <chrono>

#include "server/json_text.h"
#include "text/utf8.h"

namespace baton {
namespace {

void append_token_logprob(
    std::string& out, const Tokenizer& tokenizer, int32_t id, float logprob, bool as_id) {
  out += "{\"token\":";
  append_json_string(out, as_id ? token_id_text(id) : token_text(tokenizer, id));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_bytes(out, tokenizer.token_bytes(id));
}

}  // namespace

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  return replace_invalid_utf8(tokenizer.token_bytes(id));
}

std::string token_id_text(int32_t id) {
  return "token_id:" + std::to_string(id);
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void append_answer_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_number(out, head.created);
  out += ",\"model\":";
  append_json_string(out, head.model);
}

void append_usage(std::string& out, const UsageSum& usage) {
  out += "{\"prompt_tokens\":";
  append_number(out, usage.prompt_tokens);
  out += ",\"total_tokens\":";
  append_number(out, usage.prompt_tokens + usage.completion_tokens);
  out += ",\"completion_tokens\":";
  append_number(out, usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_number(out, usage.cached_tokens);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
  append_number(out, usage.reasoning_tokens);
  out += "}}";
}

void append_chat_logprobs(std::string& out,
                          const Tokenizer& tokenizer,
                          const std::vector<OutputToken>& tokens,
                          const AnswerOptions& options) {
  const auto append = [&](int32_t id, float logprob) {
    append_token_logprob(out, tokenizer, id, logprob, options.tokens_as_ids);
  };
  out += "{\"content\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append(tokens[i].token, tokens[i].logprob);
    out += ",\"top_logprobs\":[";
    const size_t count = std::min(tokens[i].top.size(), static_cast<size_t>(options.logprobs));
    for (size_t j = 0; j < count; ++j) {
      if (j > 0) out += ',';
      append(tokens[i].top[j].token, tokens[i].top[j].logprob);
      out += '}';
    }
    out += "]}";
  }
  out += "]}";
}

void append_finish(std::string& out, const std::optional<ChoiceEnd>& end) {
  out += "\"finish_reason\":";
  if (!end) {
    out += "null";
    return;
  }
  append_json_string(out, end->finish_reason);
  out += ",\"stop_reason\":";
  if (end->stop_text) {
    append_json_string(out, *end->stop_text);
  } else if (end->stop_token) {
    append_number(out, *end->stop_token);
  } else {
    out += "null";
  }
}

void append_token_ids(std::string& out,
                      std::string_view name,
                      const std::vector<OutputToken>& tokens) {
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (const OutputToken& token : tokens) ids.push_back(token.token);
  out += ",\"";
  out += name;
  out += "\":";
  append_ids(out, ids);
}

}  // namespace baton
