// load_model: config, files, plan, read.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "model/architectures.h"
#include "model/architectures/scripted.h"
#include "model/doctor.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/weights/checkpoint.h"
#include "model/weights/weight_reader.h"
#include "model/weights/weight_store.h"

namespace baton {
namespace {

struct WeightBytes {
  int64_t total = 0;
  int64_t mapped = 0;  // of these, in files and not in memory of their own
};

WeightBytes count_bytes(const WeightReport& report, int64_t stored) {
  WeightBytes bytes;
  for (const WeightUse& use : report.uses) bytes.total += use.bytes;
  bytes.mapped = std::max<int64_t>(0, bytes.total - stored);
  return bytes;
}

// Asked before a byte is read: host memory is granted beyond what there is, and the process
// killed when it writes there.
Status check_room(const Device& device, const std::string& folder, const WeightBytes& bytes) {
  const auto available = static_cast<int64_t>(device.memory().available_bytes);
  if (bytes.total <= available) return {};
  return resource_exhausted(folder + ": the weights need " + std::to_string(bytes.total) +
                            " bytes, " + std::to_string(available) + " are available on " +
                            std::string(device.name()));
}

// A model together with the memory that its weights are in.
class LoadedModel final : public Model {
 public:
  LoadedModel(std::unique_ptr<Model> model, Checkpoint mapped, Buffer memory, WeightBytes bytes)
      : mapped_(std::move(mapped)),
        memory_(std::move(memory)),
        bytes_(bytes),
        model_(std::move(model)) {}

  const ModelConfig& config() const override { return model_->config(); }
  const BlockLayout& block_layout() const override { return model_->block_layout(); }
  void forward(ForwardContext& context) const override { model_->forward(context); }
  int64_t weights_bytes() const override { return bytes_.total; }
  int64_t mapped_bytes() const override { return bytes_.mapped; }

 private:
  Checkpoint mapped_;  // weights that are used where they are
  Buffer memory_;
  WeightBytes bytes_;
  std::unique_ptr<Model> model_;
};

Result<WeightDtype> parse_dtype(const std::string& name) {
  if (name == "auto") return WeightDtype::kAsStored;
  if (name == "float32") return WeightDtype::kF32;
  if (name == "bfloat16") return WeightDtype::kBF16;
  return invalid_argument("dtype: expected auto, float32 or bfloat16, got '" + name + "'");
}

Status check_strict(const ModelConfig& config) {
  std::string unconsumed;
  int64_t count = 0;
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.fate != KeyFate::kUnconsumed) continue;
    unconsumed += (count++ == 0 ? "" : ", ") + entry.key;
  }
  const std::string file = config.folder + "/config.json: ";
  if (count > 0) {
    return invalid_argument(file + std::to_string(count) +
                            " keys that nothing uses (--strict): " + unconsumed);
  }
  if (!config.warnings.empty()) {
    return invalid_argument(config.warnings.front() + " (--strict)");
  }
  return {};
}

void log_report(const ModelConfig& config,
                const Checkpoint& checkpoint,
                const WeightReport& report) {
  for (const std::string& line : config.warnings) log_warning(line);
  for (const LedgerEntry& entry : config.ledger) {
    if (entry.fate == KeyFate::kUnconsumed) {
      log_warning("config.json: key '" + entry.key + "' is used by nothing");
    }
  }
  for (const std::string& line : checkpoint.warnings()) log_warning(line);
  for (const std::string& line : report.warnings) log_warning(line);
  for (const auto& [reason, tensors] : report.skipped) {
    log_info("skipped " + std::to_string(tensors.size()) + " tensors: " + reason);
  }
  for (const std::string& name : report.unconsumed) {
    log_warning("tensor '" + name + "' is used by nothing");
  }
}

// Every latent width and factor list fits before a constructor relies on it.
Status check_rope(const ModelConfig& config) {
  const int64_t width = config.is_latent() ? config.qk_rope_head_dim : config.head_dim;
  const Result<Rope> rope = make_rope(config.rope, width, config.max_position_embeddings);
  if (!rope) return rope.error();
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const std::string& folder,
                                          Device& device,
                                          const LoadOptions& options) {
  Result<ModelConfig> config = read_model_config(folder);
  if (!config) return config.error();
  const Architecture* architecture = find_architecture(config->model_type);
  if (architecture == nullptr) return load_scripted_model(folder);

  const Result<WeightDtype> dtype = parse_dtype(options.dtype);
  if (!dtype) return dtype.error();
  const Result<CacheFormats> formats =
      cache_formats(*config, options.kv_cache_dtype, options.index_cache_dtype, options.dtype);
  if (!formats) return formats.error();
  if (Status status = check_rope(*config); !status) return status.error();
  if (options.strict) {
    if (Status status = check_strict(*config); !status) return status.error();
  }
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();

  // First without memory: finds every problem and adds up the bytes.
  WeightStore plan(device);
  WeightReader planner(*checkpoint, plan, *config, {.dtype = *dtype});
  (void)architecture->build(*config, *formats, planner);
  if (Status status = planner.finish(options.strict); !status) return status.error();

  const WeightBytes bytes = count_bytes(planner.report(), plan.used_bytes());
  if (Status status = check_room(device, folder, bytes); !status) return status.error();

  Result<WeightStore> store = WeightStore::allocate(device, plan.used_bytes());
  if (!store) return store.error();
  WeightReader reader(
      *checkpoint, *store, *config, {.dtype = *dtype, .progress = options.progress});
  std::unique_ptr<Model> model = architecture->build(*config, *formats, reader);
  const WeightReport& report = reader.report();
  log_info(doctor_summary(*config, report));
  log_report(*config, *checkpoint, report);
  Result<Buffer> memory = store->finish();
  if (!memory) return memory.error();
  if (options.progress) options.progress(checkpoint->bytes(), checkpoint->bytes());
  if (!device.host_addressable()) *checkpoint = Checkpoint();
  return std::unique_ptr<Model>(std::make_unique<LoadedModel>(
      std::move(model), std::move(*checkpoint), std::move(*memory), bytes));
}

}  // namespace baton
