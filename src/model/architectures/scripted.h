// A model that plays given token sequences through the real engine: for tests of everything
// around a model (scheduling, caching, streaming, parsers, HTTP). It has no weights. Its KV row
// holds the token id and position, so that block tables, prefix reuse and preemption carry real
// content. docs/how_to/scripted_model.md describes config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace baton {

struct Script {
  std::vector<int32_t> tokens;  // played in order, then eos
  std::vector<int32_t> when;    // played for prompts that contain this run of tokens
  int32_t nan_at = -1;          // output index whose logits are all NaN; -1: never
  int32_t inf_at = -1;          // output index whose logits are all -inf; -1: never
  int32_t throw_at = -1;        // output index at which forward() throws std::bad_alloc, as the
                                // standard library does when the host has no memory; -1: never
};

enum class ScriptedMode : uint8_t {
  kScript,   // plays scripts
  kCopy,     // repeats the last token
  kHistory,  // next token = scripted_history_token() of all tokens so far, read from KV
};

struct ScriptedOptions {
  ScriptedMode mode = ScriptedMode::kScript;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 8192;
  std::vector<int32_t> eos_token_ids;
  std::vector<Script> scripts;
  int32_t tokens_per_step = 1;          // of a decoding sequence: all but one are drafts
  int32_t wrong_draft_every = 0;        // output indexes divisible by it are drafted wrong; 0: none
  double step_delay_ms = 0.0;           // per forward pass that samples
  double prefill_token_delay_ms = 0.0;  // per computed token that is not sampled from
};

// A block: a step that writes more than one new block for a sequence would test nothing more.
constexpr int32_t kMaxTokensPerStep = 64;

// Reads config.json (and its script_file) of a folder with model_type "scripted".
Result<ScriptedOptions> read_scripted_options(const std::string& folder);

std::unique_ptr<Model> make_scripted_model(ScriptedOptions options);

// Both of the above.
Result<std::unique_ptr<Model>> load_scripted_model(const std::string& folder);

// What kHistory plays after `tokens`; never an eos id. With a real model's property that every
// earlier token matters, so that a wrong block anywhere in the table changes the output.
int32_t scripted_history_token(const ScriptedOptions& options, const std::vector<int32_t>& tokens);

}  // namespace baton
