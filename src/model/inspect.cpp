#include "model/inspect.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/tables.h"
#include "model/architectures.h"
#include "model/rope.h"
#include "model/weights/checkpoint.h"
#include "model/weights/weight_reader.h"

namespace baton {
namespace {

constexpr std::array kDtypes{
    KvCacheDtype::kF32, KvCacheDtype::kBF16, KvCacheDtype::kFp8, KvCacheDtype::kNvfp4};

// The model with addresses instead of memory, and what it read.
struct Planned {
  std::unique_ptr<Model> model;
  WeightReport report;
  Status status;
};

Planned plan(const ModelConfig& config, const CacheFormats& formats, const Checkpoint* checkpoint) {
  const Checkpoint none;
  WeightStore store(/*in_place=*/true);
  WeightReader reader(checkpoint == nullptr ? none : *checkpoint,
                      store,
                      config,
                      {.assume_present = checkpoint == nullptr});
  Planned planned;
  planned.model = find_architecture(config.model_type)->build(config, formats, reader);
  planned.report = reader.report();
  planned.status = reader.finish(/*strict=*/false);
  return planned;
}

// The row format among those of kv_sizes().
std::string row_format_name(const ModelConfig& config, const CacheFormats& formats) {
  for (const KvCacheDtype dtype : kDtypes) {
    const Result<CacheFormats> named = cache_formats(config, dtype, KvCacheDtype::kAuto, "auto");
    if (!named) continue;
    const bool same =
        config.is_latent() ? named->latent == formats.latent : named->plain == formats.plain;
    if (same) return std::string(kv_cache_dtype_name(dtype));
  }
  return "?";
}

ParameterCount count_trunk(const ModelConfig& config) {
  ParameterCount count;
  for (const WeightUse& use : plan(config, {}, nullptr).report.uses) {
    count.total += use.elements;
    if (use.name == "model.embed_tokens") {
      if (config.tie_word_embeddings) count.active += use.elements;  // it is the head, too
    } else if (use.name.find(".experts.") != std::string::npos) {
      // Every expert is as large as the others, so the division is exact in the sum.
      count.active += use.elements * config.experts_per_token / config.num_experts;
    } else {
      count.active += use.elements;
    }
  }
  return count;
}

// One more layer of the kind that the trunk ends with, with its own indexer, and what joins it to
// the trunk: enorm, hnorm, eh_proj, shared_head.norm (models.md A.8).
int64_t count_mtp(const ModelConfig& config) {
  if (config.num_mtp_layers == 0) return 0;
  ModelConfig layer = config;
  layer.num_layers = 1;
  layer.moe_layers = {config.num_experts > 0};
  if (config.has_indexer()) layer.indexer_modes = {IndexerMode::kFull};
  int64_t count = 0;
  for (const WeightUse& use : plan(layer, {}, nullptr).report.uses) {
    if (use.name.starts_with("model.layers.")) count += use.elements;
  }
  count += 3 * config.hidden_size + 2 * config.hidden_size * config.hidden_size;
  return count * config.num_mtp_layers;
}

// Peak of the intermediates of one step, by running the forward pass in planning mode.
Result<int64_t> scratch_bytes(const Model& model, const InspectReport& report) {
  Result<std::unique_ptr<Device>> device = open_device("cpu", 1);
  if (!device) return device.error();
  Result<std::unique_ptr<Queue>> queue = (*device)->create_queue();
  if (!queue) return queue.error();
  const int64_t tokens = report.batched_tokens;
  const int64_t blocks = (report.context_tokens + kBlockTokens - 1) / kBlockTokens;
  Scratch scratch;
  const auto ints = [&](std::initializer_list<int64_t> dims) {
    return scratch.take(DType::kI32, dims);
  };
  const BatchLayout batch{.positions = ints({tokens}),
                          .sequence_of = ints({tokens}),
                          .block_table = ints({report.concurrency, blocks}),
                          .max_context = static_cast<int32_t>(report.context_tokens)};
  ForwardContext context{.queue = **queue,
                         .kernels = planning_kernels(),
                         .scratch = scratch,
                         .batch = batch,
                         .token_ids = ints({tokens}),
                         .sampled_rows = ints({report.concurrency}),
                         .kv_blocks = nullptr,
                         .logits = scratch.take({report.concurrency, model.config().vocab_size})};
  model.forward(context);
  return static_cast<int64_t>(scratch.peak_bytes());
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string right(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

ParameterCount count_parameters(const ModelConfig& config) {
  if (find_architecture(config.model_type) == nullptr) return {};
  ParameterCount count = count_trunk(config);
  if (config.is_latent()) count.mtp = count_mtp(config);
  return count;
}

std::vector<KvSize> kv_sizes(const ModelConfig& config) {
  std::vector<KvSize> sizes;
  if (find_architecture(config.model_type) == nullptr) return sizes;
  for (const KvCacheDtype dtype : kDtypes) {
    const Result<CacheFormats> formats = cache_formats(config, dtype, KvCacheDtype::kAuto, "auto");
    if (!formats) continue;
    const BlockLayout layout = model_block_layout(config, *formats);
    sizes.push_back({.name = std::string(kv_cache_dtype_name(dtype)),
                     .row_bytes = config.is_latent() ? latent_row_bytes(layout.latent)
                                                     : plain_row_bytes(layout.plain),
                     .token_bytes = layout.payload_bytes / kBlockTokens,
                     .block_bytes = layout.stride_bytes});
  }
  return sizes;
}

namespace {

Status check_sizes(const ModelConfig& config,
                   const InspectOptions& options,
                   const InspectReport& report) {
  if (report.context_tokens > config.max_position_embeddings) {
    return invalid_argument("context: expected at most max_position_embeddings, " +
                            std::to_string(config.max_position_embeddings) + ", got " +
                            std::to_string(report.context_tokens));
  }
  if (options.context_tokens < 0) {
    return invalid_argument("context: expected 0 (the model's own) or more, got " +
                            std::to_string(options.context_tokens));
  }
  if (report.concurrency < 1 || report.concurrency > 65536 || report.batched_tokens < 1 ||
      report.batched_tokens > (1 << 24)) {
    return invalid_argument("concurrency and batched tokens: expected 1..65536 and 1..16777216");
  }
  return {};
}

}  // namespace

Result<InspectReport> inspect_model(const std::string& folder, const InspectOptions& options) {
  const Result<ModelConfig> config = read_model_config(folder);
  if (!config) return config.error();
  const Architecture* architecture = find_architecture(config->model_type);
  if (architecture == nullptr) {
    return unsupported(folder + ": a model of type '" + config->model_type + "' has no weights");
  }
  InspectReport report;
  report.folder = folder;
  report.architecture = config->architecture;
  report.model_type = config->model_type;
  report.flow = architecture->flow;
  report.context_tokens =
      options.context_tokens > 0 ? options.context_tokens : config->max_position_embeddings;
  report.concurrency = options.concurrency;
  report.batched_tokens = options.batched_tokens;
  if (Status status = check_sizes(*config, options, report); !status) return status.error();
  const Result<CacheFormats> formats =
      cache_formats(*config, options.kv_cache_dtype, KvCacheDtype::kAuto, "auto");
  if (!formats) return formats.error();
  const int64_t rotated = config->is_latent() ? config->qk_rope_head_dim : config->head_dim;
  if (const auto rope = make_rope(config->rope, rotated, config->max_position_embeddings); !rope) {
    return rope.error();
  }
  const Result<Checkpoint> checkpoint = Checkpoint::open_headers(folder);
  if (!checkpoint) return checkpoint.error();
  report.has_weights = !checkpoint->names_only();
  const Planned planned = plan(*config, *formats, report.has_weights ? &*checkpoint : nullptr);
  if (!planned.status) return planned.status.error();
  report.parameters = count_parameters(*config);
  for (const WeightUse& use : planned.report.uses) {
    report.bytes_by_form[std::string(weight_form_name(use.form))] += use.bytes;
    report.weights_bytes += use.bytes;
  }
  report.kv = kv_sizes(*config);
  const BlockLayout& layout = planned.model->block_layout();
  const int64_t blocks = (report.context_tokens + kBlockTokens - 1) / kBlockTokens;
  constexpr double kAddressable = 4e18;
  if (static_cast<double>(blocks * report.concurrency) * static_cast<double>(layout.stride_bytes) >
      kAddressable) {
    return invalid_argument("concurrency: " + std::to_string(report.concurrency) +
                            " sequences of " + std::to_string(report.context_tokens) +
                            " tokens need more bytes than can be addressed");
  }
  report.kv_bytes = blocks * report.concurrency * layout.stride_bytes;
  report.kv_format = row_format_name(*config, *formats);
  const Result<int64_t> scratch = scratch_bytes(*planned.model, report);
  if (!scratch) return scratch.error();
  report.scratch_bytes = *scratch;
  return report;
}

std::string shown_bytes(int64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

std::string shown_count(int64_t count) {
  char text[48];
  const auto value = static_cast<double>(count);
  if (value >= 1e9) {
    std::snprintf(text, sizeof text, "%.2f B", value / 1e9);
  } else if (value >= 1e6) {
    std::snprintf(text, sizeof text, "%.2f M", value / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.0f", value);
  }
  return text;
}

std::string inspect_text(const InspectReport& report) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += padded(name, 20) + value + "\n";
  };
  line("model", report.folder);
  line("architecture", report.architecture + " (" + report.model_type + "): " + report.flow);
  line("parameters",
       shown_count(report.parameters.total) + ", " + shown_count(report.parameters.active) +
           " active per token" +
           (report.parameters.mtp > 0 ? ", MTP " + shown_count(report.parameters.mtp) : ""));
  line("weights",
       shown_bytes(report.weights_bytes) + (report.has_weights ? "" : " (no files here: as bf16)"));
  for (const auto& [form, bytes] : report.bytes_by_form) line("  " + form, shown_bytes(bytes));
  text += "\nKV cache            bytes: row   token (all layers)   block of 64\n";
  for (const KvSize& size : report.kv) {
    text += padded("  " + size.name, 20) + right(std::to_string(size.row_bytes), 10) +
            right(std::to_string(size.token_bytes), 21) +
            right(std::to_string(size.block_bytes), 14) + "\n";
  }
  text += "\n";
  line("memory plan",
       std::to_string(report.concurrency) + " sequences of " +
           std::to_string(report.context_tokens) + " tokens, " + report.kv_format +
           " rows, steps of " + std::to_string(report.batched_tokens) + " tokens");
  line("  weights", shown_bytes(report.weights_bytes));
  line("  KV cache", shown_bytes(report.kv_bytes));
  line("  intermediates", shown_bytes(report.scratch_bytes));
  line("  total", shown_bytes(report.total_bytes()));
  return text;
}

Json inspect_json(const InspectReport& report) {
  Json kv = Json::array();
  for (const KvSize& size : report.kv) {
    kv.push_back({{"format", size.name},
                  {"row_bytes", size.row_bytes},
                  {"token_bytes", size.token_bytes},
                  {"block_bytes", size.block_bytes}});
  }
  Json forms = Json::object();
  for (const auto& [form, bytes] : report.bytes_by_form) forms[form] = bytes;
  return {{"model", report.folder},
          {"architecture", report.architecture},
          {"model_type", report.model_type},
          {"flow", report.flow},
          {"parameters",
           {{"total", report.parameters.total},
            {"active", report.parameters.active},
            {"mtp", report.parameters.mtp}}},
          {"has_weights", report.has_weights},
          {"weights_bytes", report.weights_bytes},
          {"bytes_by_form", forms},
          {"kv_cache", kv},
          {"memory_plan",
           {{"context_tokens", report.context_tokens},
            {"concurrency", report.concurrency},
            {"batched_tokens", report.batched_tokens},
            {"kv_format", report.kv_format},
            {"weights_bytes", report.weights_bytes},
            {"kv_bytes", report.kv_bytes},
            {"scratch_bytes", report.scratch_bytes},
            {"total_bytes", report.total_bytes()}}}};
}

}  // namespace baton
