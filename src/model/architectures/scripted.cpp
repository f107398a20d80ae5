#include "model/architectures/scripted.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace baton {
namespace {

// The played token's logit; all others are 0. exp(-100) times any vocabulary is nothing beside
// 1, so the token is played at any usual temperature and its logprob is 0.
constexpr float kPlayedLogit = 100.0F;

// The stored row: 16 bytes, the smallest plain row.
struct Row {
  int32_t token;
  int32_t position;
  int64_t unused;
};
constexpr PlainRow kRow{.format = PlainRowFormat::kF32, .kv_heads = 1, .head_dim = 2};

template <typename T>
std::vector<T> to_host(Queue& queue, const ConstTensor& tensor) {
  std::vector<T> host(static_cast<size_t>(tensor.elements()));
  if (!host.empty()) queue.copy(host.data(), tensor.data, host.size() * sizeof(T));
  return host;
}

void sleep_ms(double milliseconds) {
  if (milliseconds <= 0.0) return;
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

// Host copies of what one step needs.
struct HostBatch {
  std::vector<int32_t> token_ids, positions, sequence_of, block_table, sampled_rows;
  int64_t max_blocks = 0;

  int32_t block(int32_t sequence, int32_t position) const {
    const int64_t at = sequence * max_blocks + position / kBlockTokens;
    return block_table[static_cast<size_t>(at)];
  }
};

class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(ScriptedOptions options)
      : options_(std::move(options)),
        layout_(make_block_layout({LayerCache::kPlain}, {}, {}, kRow)) {
    config_.model_type = "scripted";
    config_.architecture = "Scripted";
    config_.vocab_size = options_.vocab_size;
    config_.num_layers = 1;
    config_.max_position_embeddings = options_.max_position_embeddings;
    config_.eos_token_ids = options_.eos_token_ids;
    for (size_t i = 0; i < options_.scripts.size(); ++i) {
      if (options_.scripts[i].when.empty()) unconditional_.push_back(i);
    }
    has_conditions_ = unconditional_.size() < options_.scripts.size();
  }

  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  bool supports_graphs() const override { return false; }  // forward() reads host values
  int32_t max_drafts() const override { return options_.tokens_per_step - 1; }

  void draft(const DraftContext& context, std::vector<int32_t>& drafts) const override {
    const auto prompt_tokens = static_cast<size_t>(context.prompt_tokens);
    const Script* script = nullptr;
    std::vector<int32_t> history;
    if (options_.mode == ScriptedMode::kScript) {
      script = &choose(context.request_id, [&] { return context.tokens.first(prompt_tokens); });
    } else if (options_.mode == ScriptedMode::kHistory) {
      history.assign(context.tokens.begin(), context.tokens.end());
    }
    for (int32_t i = 0; i < max_drafts(); ++i) {
      const size_t output = context.tokens.size() - prompt_tokens + static_cast<size_t>(i);
      int32_t token = context.tokens.back();
      if (script != nullptr) token = scripted_token(*script, output);
      if (options_.mode == ScriptedMode::kHistory) {
        token = scripted_history_token(options_, history);
        history.push_back(token);
      }
      const auto every = static_cast<size_t>(options_.wrong_draft_every);
      if (every > 0 && output % every == 0) {
        token = (token + 1) % static_cast<int32_t>(options_.vocab_size);
      }
      drafts.push_back(token);
    }
  }

  void forward(ForwardContext& context) const override {
    if (context.scratch.planning()) return;
    const HostBatch batch = read_batch(context);
    store(context, batch);
    const size_t samples = batch.sampled_rows.size();
    sleep_ms(static_cast<double>(batch.token_ids.size() - samples) *
             options_.prefill_token_delay_ms);
    if (samples > 0) {
      sleep_ms(options_.step_delay_ms);
      context.queue.fill(context.logits.data, 0, static_cast<size_t>(context.logits.bytes()));
    }
    for (size_t i = 0; i < samples; ++i) play(context, batch, i);
  }

 private:
  static HostBatch read_batch(ForwardContext& context) {
    HostBatch batch;
    batch.token_ids = to_host<int32_t>(context.queue, context.token_ids);
    batch.positions = to_host<int32_t>(context.queue, context.batch.positions);
    batch.sequence_of = to_host<int32_t>(context.queue, context.batch.sequence_of);
    batch.block_table = to_host<int32_t>(context.queue, context.batch.block_table);
    if (!context.sampled_rows.empty()) {
      batch.sampled_rows = to_host<int32_t>(context.queue, context.sampled_rows);
    }
    batch.max_blocks = context.batch.block_table.dim(1);
    wait(context.queue);
    return batch;
  }

  // A device error here shows again at the engine's own synchronize(), which reports it.
  static void wait(Queue& queue) { (void)queue.synchronize(); }

  uint8_t* row_address(const ForwardContext& context, int32_t block, int32_t position) const {
    return context.kv_blocks + block * layout_.stride_bytes + layout_.layers[0].rows +
           position % kBlockTokens * static_cast<int64_t>(sizeof(Row));
  }

  void store(ForwardContext& context, const HostBatch& batch) const {
    std::vector<Row> rows(batch.token_ids.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t position = batch.positions[i];
      const int32_t block = batch.block(batch.sequence_of[i], position);
      BATON_CHECK(block >= 0, "no block for position", position);
      rows[i] = {batch.token_ids[i], position, 0};
      context.queue.copy(row_address(context, block, position), &rows[i], sizeof(Row));
    }
    wait(context.queue);
  }

  // The tokens 0..position of a sequence, from the KV blocks.
  std::vector<int32_t> history(ForwardContext& context,
                               const HostBatch& batch,
                               int32_t sequence,
                               int32_t position) const {
    std::vector<Row> rows(static_cast<size_t>(position) + 1);
    for (int32_t first = 0; first <= position; first += kBlockTokens) {
      const int32_t count = std::min<int32_t>(kBlockTokens, position + 1 - first);
      context.queue.copy(rows.data() + first,
                         row_address(context, batch.block(sequence, first), first),
                         static_cast<size_t>(count) * sizeof(Row));
    }
    wait(context.queue);
    std::vector<int32_t> tokens;
    tokens.reserve(rows.size());
    // A row that is not this position's own shows as token -1: the output then differs.
    for (size_t i = 0; i < rows.size(); ++i) {
      tokens.push_back(rows[i].position == static_cast<int32_t>(i) ? rows[i].token : -1);
    }
    return tokens;
  }

  void play(ForwardContext& context, const HostBatch& batch, size_t sample) const {
    const auto row = static_cast<size_t>(batch.sampled_rows[sample]);
    const int32_t position = batch.positions[row];
    const int32_t sequence = batch.sequence_of[row];
    if (options_.mode == ScriptedMode::kCopy) {
      return write_token(context, sample, batch.token_ids[row]);
    }
    if (options_.mode == ScriptedMode::kHistory) {
      const auto tokens = history(context, batch, sequence, position);
      return write_token(context, sample, scripted_history_token(options_, tokens));
    }
    BATON_CHECK(sample < context.output_counts.size() && sample < context.request_ids.size(),
                "the scripted model needs output counts and request ids");
    // Rows inside a prompt (prompt logprobs) count as output 0.
    const int32_t output = std::max(0, context.output_counts[sample]);
    const Script& script = choose(context.request_ids[sample], [&] {
      return history(context, batch, sequence, position - output);
    });
    if (output == script.nan_at) {
      return write_row(context, sample, std::numeric_limits<float>::quiet_NaN());
    }
    if (output == script.inf_at) {
      return write_row(context, sample, -std::numeric_limits<float>::infinity());
    }
    if (output == script.throw_at) throw std::bad_alloc();
    write_token(context, sample, scripted_token(script, static_cast<size_t>(output)));
  }

  int32_t scripted_token(const Script& script, size_t output) const {
    if (output < script.tokens.size()) return script.tokens[output];
    return options_.eos_token_ids.empty() ? 0 : options_.eos_token_ids.front();
  }

  // The first script whose `when` is in the prompt; else, of those without `when`, the one
  // whose turn it is by request id. `read_prompt` is called when the prompt matters.
  template <typename ReadPrompt>
  const Script& choose(uint64_t request_id, const ReadPrompt& read_prompt) const {
    if (has_conditions_) {
      const auto prompt = read_prompt();
      for (const Script& script : options_.scripts) {
        if (script.when.empty()) continue;
        const auto found =
            std::search(prompt.begin(), prompt.end(), script.when.begin(), script.when.end());
        if (found != prompt.end()) return script;
      }
    }
    if (unconditional_.empty()) return nothing_;
    return options_.scripts[unconditional_[request_id % unconditional_.size()]];
  }

  void write_token(ForwardContext& context, size_t sample, int32_t token) const {
    static constexpr float kLogit = kPlayedLogit;
    context.queue.copy(context.logits.as<float>() +
                           static_cast<int64_t>(sample) * context.logits.stride(0) + token,
                       &kLogit,
                       sizeof kLogit);
  }

  void write_row(ForwardContext& context, size_t sample, float value) const {
    const std::vector<float> row(static_cast<size_t>(options_.vocab_size), value);
    context.queue.copy(
        context.logits.as<float>() + static_cast<int64_t>(sample) * context.logits.stride(0),
        row.data(),
        row.size() * sizeof(float));
    wait(context.queue);
  }

  ScriptedOptions options_;
  std::vector<size_t> unconditional_;  // scripts without `when`
  bool has_conditions_ = false;        // there are others
  const Script nothing_;               // played where no script fits
  BlockLayout layout_;
  ModelConfig config_;
};

}  // namespace

std::unique_ptr<Model> make_scripted_model(ScriptedOptions options) {
  return std::make_unique<ScriptedModel>(std::move(options));
}

Result<std::unique_ptr<Model>> load_scripted_model(const std::string& folder) {
  auto options = read_scripted_options(folder);
  if (!options) return options.error();
  return make_scripted_model(*std::move(options));
}

int32_t scripted_history_token(const ScriptedOptions& options, const std::vector<int32_t>& tokens) {
  uint64_t state = hash_tokens(0, tokens);
  for (;;) {
    const auto token = static_cast<int32_t>(state % static_cast<uint64_t>(options.vocab_size));
    if (std::ranges::find(options.eos_token_ids, token) == options.eos_token_ids.end()) {
      return token;
    }
    state = hash_mix(state, 1);
  }
}

}  // namespace baton
