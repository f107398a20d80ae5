#include "server/openai/completion_writer.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "server/json_text.h"
#include "server/openai/request_options.h"
#include "text/utf8.h"

namespace baton {
namespace {

// Parts of characters are shown by their bytes, so that different tokens stay different.
std::string legacy_token_text(const Tokenizer& tokenizer, int32_t id) {
  const std::string& bytes = tokenizer.token_bytes(id);
  if (valid_utf8_prefix(bytes) == bytes.size()) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) {
    char text[8];
    std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
    out += text;
  }
  return out;
}

// A token of the list: the first of an echoed prompt has no logprob, and some are no text.
struct ListedToken {
  OutputToken token;
  bool has_logprob = true;
  bool shown = true;
};

int64_t characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  });
}

// {"token": logprob, ...} of the best, and of the token itself where it is none of them.
void append_alternatives(std::string& out,
                         const Tokenizer& tokenizer,
                         const OutputToken& token,
                         const AnswerOptions& options) {
  bool listed = false;
  std::string_view comma;
  const auto append = [&](int32_t id, float logprob) {
    out += comma;
    comma = ",";
    append_json_string(
        out, options.tokens_as_ids ? token_id_text(id) : legacy_token_text(tokenizer, id));
    out += ':';
    append_logprob(out, logprob);
    listed = listed || id == token.token;
  };
  out += '{';
  const size_t count =
      std::min(token.top.size(), static_cast<size_t>(std::max(options.logprobs, 0)));
  for (size_t i = 0; i < count; ++i) append(token.top[i].token, token.top[i].logprob);
  if (!listed) append(token.token, token.logprob);
  out += '}';
}

// {"text_offset","token_logprobs","tokens","top_logprobs"}; `offset` moves on by characters.
void append_legacy_logprobs(std::string& out,
                            const Tokenizer& tokenizer,
                            const std::vector<ListedToken>& tokens,
                            const AnswerOptions& options,
                            int64_t& offset) {
  std::string offsets, logprobs, texts, tops;
  for (const ListedToken& listed : tokens) {
    const std::string_view comma = offsets.empty() ? "" : ",";
    for (std::string* list : {&offsets, &logprobs, &texts, &tops}) *list += comma;
    const int32_t id = listed.token.token;
    append_number(offsets, offset);
    append_json_string(
        texts, options.tokens_as_ids ? token_id_text(id) : legacy_token_text(tokenizer, id));
    if (listed.shown) offset += characters(tokenizer.token_bytes(id));
    if (!listed.has_logprob) {
      logprobs += "null";
      tops += "null";
      continue;
    }
    append_logprob(logprobs, listed.token.logprob);
    append_alternatives(tops, tokenizer, listed.token, options);
  }
  out += "{\"text_offset\":[" + offsets + "],\"token_logprobs\":[" + logprobs + "],\"tokens\":[" +
         texts + "],\"top_logprobs\":[" + tops + "]}";
}

std::vector<ListedToken> list_prompt(const CompletionPrompt& prompt,
                                     std::vector<OutputToken>&& logprobs) {
  std::vector<ListedToken> listed;
  if (prompt.ids.empty()) return listed;
  listed.push_back({.token = {.token = prompt.ids[0]}, .has_logprob = false});
  for (OutputToken& token : logprobs) listed.push_back({.token = std::move(token)});
  for (size_t i = 0; i < std::min(prompt.hidden, listed.size()); ++i) listed[i].shown = false;
  return listed;
}

// Before the engine's part, which a prompt of one token does not have.
std::vector<std::vector<ListedToken>> first_prompt_tokens(const CompletionAnswer& answer) {
  std::vector<std::vector<ListedToken>> listed(answer.prompts.size());
  if (!answer.echo || answer.options.logprobs < 0) return listed;
  for (size_t i = 0; i < listed.size(); ++i) listed[i] = list_prompt(answer.prompts[i], {});
  return listed;
}

void append_listed(std::vector<ListedToken>& listed,
                   const std::vector<OutputToken>& tokens,
                   const Tokenizer& tokenizer,
                   bool skip_special_tokens) {
  for (const OutputToken& token : tokens) {
    const bool hidden = skip_special_tokens && tokenizer.is_special(token.token);
    listed.push_back({.token = token, .shown = !hidden});
  }
}

void append_choice_end(std::string& out, size_t index, const std::optional<ChoiceEnd>& end) {
  out += ",\"index\":";
  append_number(out, static_cast<int64_t>(index));
  out += ',';
  append_finish(out, end);
}

class CompletionStreamWriter final : public AnswerWriter {
 public:
  CompletionStreamWriter(const Tokenizer& tokenizer, AnswerHead head, CompletionAnswer answer)
      : tokenizer_(tokenizer),
        answer_(std::move(answer)),
        warnings_(std::move(head.warnings)),
        prompt_listed_(first_prompt_tokens(answer_)),
        begun_(answer_.prompts.size(), false),
        offsets_(answer_.prompts.size(), 0) {
    chunk_start_ = "data: ";
    append_answer_head(chunk_start_, head, "text_completion");
  }

  void prompt_logprobs(size_t choice, std::vector<OutputToken> tokens) override {
    prompt_listed_[choice] = list_prompt(answer_.prompts[choice], std::move(tokens));
  }

  void piece(size_t choice, Piece&& piece, const UsageSum& so_far, std::string& out) override {
    const bool has_tokens = (answer_.options.logprobs >= 0 || answer_.options.return_token_ids) &&
                            !piece.tokens.empty();
    const bool first = !begun_[choice];
    if (first || has_tokens || piece.end || !piece.text.empty()) {
      append_chunk(choice, std::move(piece), so_far, out);
    }
  }

  void end(const UsageSum& usage, std::string& out) override {
    if (answer_.options.include_usage) {
      out += chunk_start_;
      out += ",\"choices\":[],\"usage\":";
      append_usage(out, usage);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

 private:
  void append_chunk(size_t choice, Piece&& piece, const UsageSum& so_far, std::string& out) {
    const CompletionPrompt& prompt = answer_.prompts[choice];
    const bool first = !begun_[choice];
    begun_[choice] = true;
    out += chunk_start_;
    append_warnings(out, warnings_);
    warnings_.clear();
    out += ",\"choices\":[{\"text\":";
    append_json_string(out, first && answer_.echo ? prompt.text + piece.text : piece.text);
    out += ",\"logprobs\":";
    if (answer_.options.logprobs >= 0) {
      std::vector<ListedToken> listed = std::move(prompt_listed_[choice]);
      prompt_listed_[choice].clear();
      append_listed(listed, piece.tokens, tokenizer_, answer_.skip_special_tokens);
      append_legacy_logprobs(out, tokenizer_, listed, answer_.options, offsets_[choice]);
    } else {
      out += "null";
    }
    append_choice_end(out, choice, piece.end);
    if (answer_.options.return_token_ids) {
      if (first) {
        out += ",\"prompt_token_ids\":";
        append_ids(out, prompt.ids);
      }
      append_token_ids(out, "token_ids", piece.tokens);
    }
    out += "}]";
    if (answer_.options.include_usage) {
      out += ",\"usage\":";
      if (answer_.options.continuous_usage) {
        append_usage(out, so_far);
      } else {
        out += "null";
      }
    }
    out += "}\n\n";
  }

  const Tokenizer& tokenizer_;
  const CompletionAnswer answer_;
  std::string chunk_start_;
  std::vector<std::string> warnings_;
  std::vector<std::vector<ListedToken>> prompt_listed_;
  std::vector<bool> begun_;
  std::vector<int64_t> offsets_;
};

class CompletionWholeWriter final : public AnswerWriter {
 public:
  CompletionWholeWriter(const Tokenizer& tokenizer, AnswerHead head, CompletionAnswer answer)
      : tokenizer_(tokenizer),
        head_(std::move(head)),
        answer_(std::move(answer)),
        choices_(answer_.prompts.size()),
        prompt_listed_(first_prompt_tokens(answer_)) {}

  void prompt_logprobs(size_t choice, std::vector<OutputToken> tokens) override {
    prompt_listed_[choice] = list_prompt(answer_.prompts[choice], std::move(tokens));
  }

  void piece(size_t choice, Piece&& piece, const UsageSum&, std::string&) override {
    Piece& all = choices_[choice];
    all.text += piece.text;
    std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(all.tokens));
    if (piece.end) all.end = std::move(piece.end);
  }

  void end(const UsageSum& usage, std::string& out) override {
    append_answer_head(out, head_, "text_completion");
    out += ",\"choices\":[";
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(i, out);
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    append_warnings(out, head_.warnings);
    out += '}';
  }

 private:
  void append_choice(size_t index, std::string& out) {
    const CompletionPrompt& prompt = answer_.prompts[index];
    Piece& piece = choices_[index];
    out += "{\"text\":";
    append_json_string(out, answer_.echo ? prompt.text + piece.text : piece.text);
    out += ",\"logprobs\":";
    if (answer_.options.logprobs >= 0) {
      std::vector<ListedToken> listed = std::move(prompt_listed_[index]);
      append_listed(listed, piece.tokens, tokenizer_, answer_.skip_special_tokens);
      int64_t offset = 0;
      append_legacy_logprobs(out, tokenizer_, listed, answer_.options, offset);
    } else {
      out += "null";
    }
    append_choice_end(out, index, piece.end);
    if (answer_.options.return_token_ids) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, prompt.ids);
      append_token_ids(out, "token_ids", piece.tokens);
    }
    out += '}';
  }

  const Tokenizer& tokenizer_;
  const AnswerHead head_;
  const CompletionAnswer answer_;
  std::vector<Piece> choices_;
  std::vector<std::vector<ListedToken>> prompt_listed_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(const Tokenizer& tokenizer,
                                                     AnswerHead head,
                                                     CompletionAnswer answer,
                                                     bool stream) {
  if (stream) {
    return std::make_unique<CompletionStreamWriter>(tokenizer, std::move(head), std::move(answer));
  }
  return std::make_unique<CompletionWholeWriter>(tokenizer, std::move(head), std::move(answer));
}

}  // namespace baton
