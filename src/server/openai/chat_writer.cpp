#include "server/openai/chat_writer.h"

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "server/json_text.h"
#include "server/openai/request_options.h"

namespace baton {
namespace {

std::string new_call_id() {
  static const uint64_t process = random_seed();
  static std::atomic<uint64_t> counter = 0;
  char text[40];
  std::snprintf(text,
                sizeof text,
                "call_%016llx",
                static_cast<unsigned long long>(hash_mix(process ^ ++counter, process | 1U)));
  return text;
}

void append_text_field(std::string& out, std::string_view name, std::string_view text) {
  out += '"';
  out += name;
  out += "\":";
  append_json_string(out, text);
}

class ChatStreamWriter final : public AnswerWriter {
 public:
  ChatStreamWriter(Service& service, AnswerHead head, ChatAnswer answer)
      : tokenizer_(*service.model()->tokenizer),
        options_(answer.options),
        warnings_(std::move(head.warnings)),
        role_sent_(answer.choices, false),
        prompt_(std::move(answer.prompt)),
        metrics_(service.metrics()) {
    chunk_start_ = "data: ";
    append_answer_head(chunk_start_, head, "chat.completion.chunk");
  }

  void prompt_logprobs(size_t, std::vector<OutputToken>) override {}

  void piece(size_t choice, Piece&& piece, const UsageSum& so_far, std::string& out) override {
    if (!options_.include_reasoning) piece.reasoning.clear();
    const bool says_something =
        !piece.text.empty() || !piece.reasoning.empty() || !piece.tool_calls.empty();
    const bool has_logprobs = options_.logprobs >= 0 && !piece.tokens.empty();
    const bool has_ids = options_.return_token_ids && !piece.tokens.empty();
    if (!role_sent_[choice] || says_something || has_logprobs || has_ids || piece.end) {
      append_chunk(choice, piece, so_far, out);
    }
  }

  void end(const UsageSum& usage, std::string& out) override {
    if (options_.include_usage) {
      out += chunk_start_;
      out += ",\"choices\":[],\"usage\":";
      append_usage(out, usage);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

 private:
  void append_chunk(size_t choice, const Piece& piece, const UsageSum& so_far, std::string& out) {
    out += chunk_start_;
    if (!warnings_.empty()) {
      append_warnings(out, warnings_);
      warnings_.clear();
    }
    if (!prompt_.empty()) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, prompt_);
      prompt_.clear();
    }
    out += ",\"choices\":[{\"index\":";
    append_number(out, static_cast<int64_t>(choice));
    out += ",\"delta\":{";
    append_delta(choice, piece, out);
    out += "},\"logprobs\":";
    if (options_.logprobs >= 0 && !piece.tokens.empty()) {
      append_chat_logprobs(out, tokenizer_, piece.tokens, options_);
    } else {
      out += "null";
    }
    out += ',';
    append_finish(out, piece.end);
    if (options_.return_token_ids) append_token_ids(out, "token_ids", piece.tokens);
    out += "}]";
    if (options_.include_usage) {
      out += ",\"usage\":";
      if (options_.continuous_usage) {
        append_usage(out, so_far);
      } else {
        out += "null";
      }
    }
    out += "}\n\n";
  }

  void append_delta(size_t choice, const Piece& piece, std::string& out) {
    std::string_view comma;
    if (!role_sent_[choice]) {
      role_sent_[choice] = true;
      out += "\"role\":\"assistant\"";
      comma = ",";
      if (piece.text.empty() && piece.reasoning.empty() && piece.tool_calls.empty()) {
        out += ",\"content\":\"\"";
      }
    }
    if (!piece.reasoning.empty()) {
      out += comma;
      append_text_field(out, "reasoning_content", piece.reasoning);
      comma = ",";
    }
    if (!piece.text.empty()) {
      out += comma;
      append_text_field(out, "content", piece.text);
      comma = ",";
    }
    if (piece.tool_calls.empty()) return;
    out += comma;
    out += "\"tool_calls\":[";
    comma = "";
    for (const ToolCallDelta& call : piece.tool_calls) {
      out += comma;
      comma = ",";
      append_call_delta(call, out);
    }
    out += ']';
  }

  // id, type and name belong to the first delta of a call only.
  void append_call_delta(const ToolCallDelta& call, std::string& out) {
    out += "{\"index\":";
    append_number(out, call.index);
    if (!call.name.empty()) {
      ++metrics_.tool_calls;
      out += ",\"id\":\"" + new_call_id() + "\",\"type\":\"function\"";
    }
    out += ",\"function\":{";
    if (!call.name.empty()) {
      append_text_field(out, "name", call.name);
      out += ',';
    }
    append_text_field(out, "arguments", call.arguments);
    out += "}}";
  }

  const Tokenizer& tokenizer_;
  const AnswerOptions options_;
  std::string chunk_start_;
  std::vector<std::string> warnings_;
  std::vector<bool> role_sent_;
  std::vector<int32_t> prompt_;
  Metrics& metrics_;
};

class ChatWholeWriter final : public AnswerWriter {
 public:
  ChatWholeWriter(Service& service, AnswerHead head, ChatAnswer answer)
      : tokenizer_(*service.model()->tokenizer),
        options_(answer.options),
        head_(std::move(head)),
        choices_(answer.choices),
        prompt_(std::move(answer.prompt)),
        metrics_(service.metrics()) {}

  void prompt_logprobs(size_t, std::vector<OutputToken>) override {}

  void piece(size_t choice, Piece&& piece, const UsageSum&, std::string&) override {
    Piece& all = choices_[choice];
    all.text += piece.text;
    if (options_.include_reasoning) all.reasoning += piece.reasoning;
    for (ToolCallDelta& call : piece.tool_calls) {
      const auto index = static_cast<size_t>(call.index);
      if (index >= all.tool_calls.size()) all.tool_calls.resize(index + 1);
      all.tool_calls[index].name += call.name;
      all.tool_calls[index].arguments += call.arguments;
    }
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(all.tokens));
    if (piece.end) all.end = std::move(piece.end);
  }

  void end(const UsageSum& usage, std::string& out) override {
    append_answer_head(out, head_, "chat.completion");
    out += ",\"choices\":[";
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(i, choices_[i], out);
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    if (!prompt_.empty()) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, prompt_);
    }
    append_warnings(out, head_.warnings);
    out += '}';
  }

 private:
  void append_choice(size_t index, const Piece& piece, std::string& out) {
    out += "{\"index\":";
    append_number(out, static_cast<int64_t>(index));
    out += ",\"message\":{\"role\":\"assistant\",\"content\":";
    if (piece.text.empty() && !piece.tool_calls.empty()) {
      out += "null";
    } else {
      append_json_string(out, piece.text);
    }
    if (!piece.reasoning.empty()) {
      out += ',';
      append_text_field(out, "reasoning_content", piece.reasoning);
    }
    if (!piece.tool_calls.empty()) append_calls(piece, out);
    out += "},\"logprobs\":";
    if (options_.logprobs >= 0) {
      append_chat_logprobs(out, tokenizer_, piece.tokens, options_);
    } else {
      out += "null";
    }
    out += ',';
    append_finish(out, piece.end);
    if (options_.return_token_ids) append_token_ids(out, "token_ids", piece.tokens);
    out += '}';
  }

  void append_calls(const Piece& piece, std::string& out) {
    out += ",\"tool_calls\":[";
    for (size_t i = 0; i < piece.tool_calls.size(); ++i) {
      ++metrics_.tool_calls;
      if (i > 0) out += ',';
      out += "{\"id\":\"" + new_call_id() + "\",\"type\":\"function\",\"function\":{";
      append_text_field(out, "name", piece.tool_calls[i].name);
      out += ',';
      append_text_field(out, "arguments", piece.tool_calls[i].arguments);
      out += "}}";
    }
    out += ']';
  }

  const Tokenizer& tokenizer_;
  const AnswerOptions options_;
  const AnswerHead head_;
  std::vector<Piece> choices_;
  const std::vector<int32_t> prompt_;
  Metrics& metrics_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(Service& service,
                                               AnswerHead head,
                                               ChatAnswer answer,
                                               bool stream) {
  if (stream) {
    return std::make_unique<ChatStreamWriter>(service, std::move(head), std::move(answer));
  }
  return std::make_unique<ChatWholeWriter>(service, std::move(head), std::move(answer));
}

}  // namespace baton
