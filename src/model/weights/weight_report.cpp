// What a checkpoint holds that the model did not ask for, and the other way round.
#include <charconv>

#include "model/nearest_name.h"
#include "model/quantization/scheme.h"
#include "model/weights/weight_reader_state.h"

namespace baton {
namespace {

constexpr size_t kShownNames = 8;

// The N of "model.layers.N."; -1 for other names.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return -1;
  int64_t layer = -1;
  const char* first = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(first, name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

// Why a tensor that nobody asked for is no surprise; empty when it is one.
std::string skip_reason(const std::string& name, const ModelConfig& config) {
  const int64_t layer = layer_of(name);
  if (layer >= config.num_layers && layer < config.num_layers + config.num_mtp_layers) {
    return "MTP layer, not executed yet";
  }
  if (name.ends_with("rotary_emb.inv_freq")) return "rotary frequencies are computed";
  if (name.find(".indexer.") != std::string::npos && layer >= 0 && layer < config.num_layers &&
      config.has_indexer() &&
      config.indexer_modes[static_cast<size_t>(layer)] == IndexerMode::kShared) {
    return "indexer of a layer that shares a selection";
  }
  if (is_activation_scale(name)) return "activation scale: activations stay f32";
  return "";
}

std::string first_names(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShownNames) list += ", ...";
  return list;
}

}  // namespace

const WeightReport& WeightReader::report() {
  State& state = *state_;
  WeightReport& report = state.report;
  report.skipped.clear();
  report.unconsumed.clear();
  bool has_mtp = false;
  for (const auto& [name, stored] : state.checkpoint.tensors()) {
    has_mtp = has_mtp || layer_of(name) >= state.config.num_layers;
    if (state.consumed.contains(&stored)) continue;
    const std::string reason = skip_reason(name, state.config);
    if (reason.empty()) {
      report.unconsumed.push_back(name);
    } else {
      report.skipped[reason].push_back(name);
    }
  }
  if (state.config.num_mtp_layers > 0 && !has_mtp && !state.checkpoint.tensors().empty()) {
    report.warnings.push_back("config.json declares " +
                              std::to_string(state.config.num_mtp_layers) +
                              " MTP layer(s), the files have none");
  }
  const std::vector<std::string> contradicted =
      excluded_modules(state.config.quantization.excluded, state.quantized);
  if (!contradicted.empty()) {
    report.warnings.push_back(
        std::to_string(contradicted.size()) +
        " matrices are quantised although the exclude list names them; their scales decide: " +
        first_names(contradicted));
  }
  return report;
}

Status WeightReader::finish(bool strict) const {
  const State& state = *state_;
  std::vector<std::string> unconsumed;
  for (const auto& [name, stored] : state.checkpoint.tensors()) {
    if (!state.consumed.contains(&stored) && skip_reason(name, state.config).empty()) {
      unconsumed.push_back(name);
    }
  }
  const std::string& folder = state.config.folder;
  const size_t count = state.problems.size() + state.missing.size();
  if (count == 0 && (unconsumed.empty() || !strict)) return {};
  std::string message = folder + ": ";
  if (count == 0) {
    return invalid_argument(message + std::to_string(unconsumed.size()) +
                            " tensors that nothing uses (--strict): " + first_names(unconsumed));
  }
  if (!state.problems.empty()) {
    message += state.problems.front();
  } else {
    const State::Missing& first = state.missing.front();
    message += "tensor '" + first.name + "' is missing: expected " + first.expected;
    const std::string nearest = nearest_name(first.name, unconsumed);
    if (!nearest.empty()) message += "; nearest unused name: '" + nearest + "'";
  }
  if (count > 1) message += "; " + std::to_string(count - 1) + " more problems";
  if (!state.missing.empty() && (state.missing.size() > 1 || !state.problems.empty())) {
    std::vector<std::string> names;
    for (const State::Missing& m : state.missing) names.push_back(m.name);
    message += "; missing: " + first_names(names);
  }
  if (!unconsumed.empty()) {
    message += "; " + std::to_string(unconsumed.size()) +
               " tensors that nothing uses: " + first_names(unconsumed);
  }
  return invalid_argument(message);
}

}  // namespace baton
