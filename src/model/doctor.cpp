#include "model/doctor.h"

#include <algorithm>
#include <cstdio>

#include "model/architectures.h"
#include "model/inspect.h"
#include "model/rope.h"
#include "model/weights/checkpoint.h"

namespace baton {
namespace {

constexpr size_t kShownNames = 20;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string_view rope_name(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kDynamic:
      return "dynamic";
    case RopeType::kYarn:
      return "yarn";
    case RopeType::kLongrope:
      return "longrope";
    case RopeType::kLlama3:
      return "llama3";
  }
  return "?";
}

std::string rope_words(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  std::string text = std::string(rope_name(rope.type)) + ", theta " + number(rope.theta);
  if (rope.type != RopeType::kDefault) text += ", factor " + number(rope.factor);
  if (rope.type == RopeType::kDynamic) text += " (would act beyond the context only)";
  if (rope.original_max_position > 0) {
    text += ", original length " + std::to_string(rope.original_max_position);
  }
  const int64_t width = config.is_latent() ? config.qk_rope_head_dim : config.head_dim;
  if (const auto made = make_rope(rope, width, config.max_position_embeddings)) {
    if (rope.type != RopeType::kDefault) {
      text += ", attention factor " + number(static_cast<double>(made->attention_factor)) +
              ", score factor " + number(static_cast<double>(made->score_factor));
    }
  }
  text += ", " + std::to_string(width) + " channels ";
  text += config.rope_interleave ? "interleaved" : "half-split";
  if (config.has_indexer()) {
    text +=
        std::string(", indexer ") + (config.indexer_rope_interleave ? "interleaved" : "half-split");
  }
  return text;
}

std::string mtp_words(const ModelConfig& config) {
  if (config.num_mtp_layers == 0) return "none declared";
  return std::to_string(config.num_mtp_layers) +
         " layer(s) declared, not executed yet: their tensors are skipped";
}

// Digits between dots become a star.
std::string group_name(const std::string& name) {
  std::string group;
  size_t at = 0;
  while (at <= name.size()) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, dot - at);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    group += (group.empty() ? "" : ".") + (digits ? "*" : part);
    at = dot + 1;
  }
  return group;
}

std::vector<TensorGroup> group_uses(const std::vector<WeightUse>& uses) {
  std::map<std::string, TensorGroup> groups;
  for (const WeightUse& use : uses) {
    if (!use.is_matrix) continue;
    TensorGroup& group = groups[group_name(use.name)];
    group.name = group_name(use.name);
    ++group.forms[std::string(weight_form_name(use.form))];
  }
  std::vector<TensorGroup> list;
  list.reserve(groups.size());
  for (auto& [name, group] : groups) list.push_back(std::move(group));
  return list;
}

void split_layers(DoctorReport& report) {
  const ModelConfig& config = report.config;
  for (size_t i = 0; i < config.indexer_modes.size(); ++i) {
    const bool full = config.indexer_modes[i] == IndexerMode::kFull;
    (full ? report.full_layers : report.shared_layers).push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < config.moe_layers.size(); ++i) {
    (config.moe_layers[i] ? report.expert_layers : report.dense_layers)
        .push_back(static_cast<int64_t>(i));
  }
}

// Runs the model's constructor on headers: what it asks for is what will be executed.
void examine_tensors(DoctorReport& report, const Architecture& architecture) {
  const ModelConfig& config = report.config;
  const auto formats = cache_formats(config, KvCacheDtype::kAuto, KvCacheDtype::kAuto, "auto");
  const int64_t width = config.is_latent() ? config.qk_rope_head_dim : config.head_dim;
  const auto rope = make_rope(config.rope, width, config.max_position_embeddings);
  if (!formats) report.problem = formats.error().message;
  if (!rope) report.problem = rope.error().message;
  const Result<Checkpoint> checkpoint = Checkpoint::open_headers(config.folder);
  if (!checkpoint) report.problem = checkpoint.error().message;
  if (report.problem) return;
  const bool empty = checkpoint->tensors().empty();
  report.files = empty                      ? DoctorReport::Files::kNone
                 : checkpoint->names_only() ? DoctorReport::Files::kIndexOnly
                                            : DoctorReport::Files::kHeaders;
  WeightStore store(/*in_place=*/true);
  WeightReader reader(*checkpoint, store, config, {.assume_present = empty});
  (void)architecture.build(config, *formats, reader);
  report.weights = reader.report();
  if (!empty) report.groups = group_uses(report.weights.uses);
  const auto add = [&](const std::vector<std::string>& list) {
    report.warnings.insert(report.warnings.end(), list.begin(), list.end());
  };
  add(checkpoint->warnings());
  add(report.weights.warnings);
  if (const Status status = reader.finish(/*strict=*/false); !status && !empty) {
    report.problem = status.error().message;
  }
}

std::string index_list(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[i]);
    if (end > i + 1) {
      text += "-" + std::to_string(layers[end]);
      i = end;
    }
  }
  return text.empty() ? "none" : text;
}

std::string forms_words(const TensorGroup& group) {
  std::string text;
  for (const auto& [form, count] : group.forms) {
    text += (text.empty() ? "" : ", ") + form + " x " + std::to_string(count);
  }
  return text;
}

std::string_view files_name(DoctorReport::Files files) {
  switch (files) {
    case DoctorReport::Files::kNone:
      return "none here: only config.json was examined";
    case DoctorReport::Files::kIndexOnly:
      return "index only: names were examined, not shapes";
    case DoctorReport::Files::kHeaders:
      return "headers examined";
  }
  return "?";
}

}  // namespace

std::vector<std::string> DoctorReport::unconsumed_keys() const {
  std::vector<std::string> keys;
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.fate == KeyFate::kUnconsumed) keys.push_back(entry.key);
  }
  return keys;
}

bool DoctorReport::clean() const {
  return !problem && unconsumed_keys().empty() && weights.unconsumed.empty() &&
         config.warnings.empty();
}

Result<DoctorReport> examine_model(const std::string& folder) {
  Result<ModelConfig> config = read_model_config(folder);
  if (!config) return config.error();
  DoctorReport report;
  report.config = std::move(*config);
  report.warnings = report.config.warnings;
  split_layers(report);
  report.mtp = mtp_words(report.config);
  const Architecture* architecture = find_architecture(report.config.model_type);
  if (architecture == nullptr) {
    report.flow = "plays given tokens, no weights";
    return report;
  }
  report.flow = architecture->flow;
  report.rope = rope_words(report.config);
  examine_tensors(report, *architecture);
  return report;
}

std::string doctor_text(const DoctorReport& report) {
  const ModelConfig& config = report.config;
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += name + std::string(name.size() < 20 ? 20 - name.size() : 1, ' ') + value + "\n";
  };
  const auto list = [&](const std::string& title, const std::vector<std::string>& names) {
    line(title, std::to_string(names.size()));
    for (size_t i = 0; i < names.size() && i < kShownNames; ++i) text += "  " + names[i] + "\n";
    if (names.size() > kShownNames) {
      text += "  ... and " + std::to_string(names.size() - kShownNames) + " more\n";
    }
  };
  line("model", config.folder);
  line("architecture", config.architecture + " (" + config.model_type + "): " + report.flow);
  line("context", std::to_string(config.max_position_embeddings) + " tokens");
  line("layers",
       std::to_string(config.num_layers) + ", dense " + index_list(report.dense_layers) +
           "; with experts " + index_list(report.expert_layers));
  if (config.has_indexer()) {
    line("indexer full",
         std::to_string(report.full_layers.size()) + ": " + index_list(report.full_layers));
    line("indexer shared",
         std::to_string(report.shared_layers.size()) + ": " + index_list(report.shared_layers));
    line("indexer top-k", std::to_string(config.index_top_k));
  }
  line("rope", report.rope);
  line("MTP", report.mtp);
  line("declared dtype", config.dtype);
  line("quantisation",
       config.quantization.method.empty() ? "none declared" : config.quantization.description);
  line("weight files", std::string(files_name(report.files)));
  for (const TensorGroup& group : report.groups) {
    text += "  " + group.name + ": " + forms_words(group) + "\n";
  }
  for (const auto& [reason, names] : report.weights.skipped) {
    line("skipped tensors", std::to_string(names.size()) + ": " + reason);
  }
  list("unconsumed tensors", report.weights.unconsumed);
  list("unconsumed keys", report.unconsumed_keys());
  int64_t used = 0;
  std::vector<std::string> irrelevant;
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.fate == KeyFate::kUsed) ++used;
    if (entry.fate == KeyFate::kIrrelevant) irrelevant.push_back(entry.key + ": " + entry.reason);
  }
  line("keys used", std::to_string(used));
  list("keys irrelevant", irrelevant);
  list("warnings", report.warnings);
  line("verdict",
       report.problem ? "would not load: " + *report.problem
                      : (report.clean() ? "loads, nothing unconsumed" : "loads"));
  return text;
}

Json doctor_json(const DoctorReport& report) {
  const ModelConfig& config = report.config;
  Json groups = Json::array();
  for (const TensorGroup& group : report.groups) {
    groups.push_back({{"name", group.name}, {"forms", group.forms}});
  }
  Json skipped = Json::object();
  for (const auto& [reason, names] : report.weights.skipped) skipped[reason] = names;
  Json used = Json::array();
  Json irrelevant = Json::object();
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.fate == KeyFate::kUsed) used.push_back(entry.key);
    if (entry.fate == KeyFate::kIrrelevant) irrelevant[entry.key] = entry.reason;
  }
  return {{"model", config.folder},
          {"architecture", config.architecture},
          {"model_type", config.model_type},
          {"flow", report.flow},
          {"context_tokens", config.max_position_embeddings},
          {"layers", config.num_layers},
          {"dense_layers", report.dense_layers},
          {"expert_layers", report.expert_layers},
          {"indexer",
           {{"full_layers", report.full_layers},
            {"shared_layers", report.shared_layers},
            {"top_k", config.index_top_k}}},
          {"rope", report.rope},
          {"mtp", {{"declared_layers", config.num_mtp_layers}, {"executed_layers", 0}}},
          {"dtype", config.dtype},
          {"quantization", config.quantization.description},
          {"weight_files", files_name(report.files)},
          {"tensor_groups", groups},
          {"skipped_tensors", skipped},
          {"unconsumed_tensors", report.weights.unconsumed},
          {"unconsumed_keys", report.unconsumed_keys()},
          {"used_keys", used},
          {"irrelevant_keys", irrelevant},
          {"warnings", report.warnings},
          {"problem", report.problem ? Json(*report.problem) : Json()},
          {"clean", report.clean()}};
}

std::string doctor_summary(const DoctorReport& report) {
  const ModelConfig& config = report.config;
  std::string text = config.architecture + ", " + std::to_string(config.num_layers) + " layers";
  if (config.has_indexer()) {
    text += " (indexer full in " + index_list(report.full_layers) + "; shared in " +
            index_list(report.shared_layers) + ")";
  }
  text += ", context " + std::to_string(config.max_position_embeddings);
  if (config.num_mtp_layers > 0) text += ", MTP " + report.mtp;
  if (!config.quantization.method.empty()) text += ", " + config.quantization.description;
  text += "; unconsumed: " + std::to_string(report.unconsumed_keys().size()) + " keys, " +
          std::to_string(report.weights.unconsumed.size()) + " tensors";
  return text;
}

std::string doctor_summary(const ModelConfig& config, const WeightReport& weights) {
  DoctorReport report;
  report.config = config;
  report.mtp = mtp_words(config);
  report.weights = weights;
  split_layers(report);
  return doctor_summary(report);
}

}  // namespace baton
