#include "model/testing/model_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/weights/mapped_file.h"
#include "model/weights/safetensors.h"

namespace baton::testing {

Golden read_golden(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  BATON_CHECK(file.has_value(), path);
  const auto entries = parse_safetensors(file->bytes(), path);
  BATON_CHECK(entries.has_value(), entries ? path : entries.error().message);
  Golden golden;
  for (const TensorEntry& entry : *entries) {
    GoldenTensor tensor{.shape = entry.shape, .values = {}, .ints = {}};
    const uint8_t* data = file->bytes().data() + entry.begin;
    const auto count = static_cast<size_t>(entry.bytes() / 4);
    if (entry.dtype == DType::kF32) {
      tensor.values.resize(count);
      std::memcpy(tensor.values.data(), data, 4 * count);
    } else {
      BATON_CHECK(entry.dtype == DType::kI32, entry.name);
      tensor.ints.resize(count);
      std::memcpy(tensor.ints.data(), data, 4 * count);
    }
    golden.emplace(entry.name, std::move(tensor));
  }
  return golden;
}

double relative_l2(std::span<const float> got, std::span<const float> want) {
  BATON_CHECK(got.size() == want.size(), got.size(), want.size());
  double error = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += difference * difference;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::isfinite(error) ? std::sqrt(error / std::max(norm, 1e-300)) : INFINITY;
}

Result<std::unique_ptr<ModelHarness>> ModelHarness::open(const std::string& folder,
                                                         const std::string& table,
                                                         const LoadOptions& options,
                                                         int64_t max_tokens,
                                                         int threads) {
  std::unique_ptr<ModelHarness> harness(new ModelHarness);
  Result<std::unique_ptr<Device>> device = open_device("cpu", threads);
  if (!device) return device.error();
  harness->device_ = std::move(*device);
  Result<const KernelTable*> kernels = table_for(*harness->device_, table);
  if (!kernels) return kernels.error();
  harness->kernels_ = *kernels;
  Result<std::unique_ptr<Queue>> queue = harness->device_->create_queue();
  if (!queue) return queue.error();
  harness->queue_ = std::move(*queue);
  Result<std::unique_ptr<Model>> model = load_model(folder, *harness->device_, options);
  if (!model) return model.error();
  harness->model_ = std::move(*model);
  harness->max_tokens_ = max_tokens;

  // Every second block of the pool, from the back.
  const int64_t blocks = (max_tokens + kBlockTokens - 1) / kBlockTokens;
  for (int64_t b = 0; b < blocks; ++b) {
    harness->block_table_.push_back(static_cast<int32_t>(2 * (blocks - b) - 1));
  }
  const int64_t stride = harness->model_->block_layout().stride_bytes;
  harness->pool_.resize(static_cast<size_t>(2 * blocks * stride));
  harness->restart();
  return harness;
}

void ModelHarness::restart() {
  std::fill(pool_.begin(), pool_.end(), uint8_t{0x7f});  // NaN in every row format
  length_ = 0;
}

std::vector<float> ModelHarness::run(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  BATON_CHECK(length_ + count <= max_tokens_, length_, count, max_tokens_);
  std::vector<int32_t> positions(tokens.size());
  std::vector<int32_t> rows(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    positions[i] = static_cast<int32_t>(length_ + static_cast<int64_t>(i));
    rows[i] = static_cast<int32_t>(i);
  }
  const std::vector<int32_t> sequence(tokens.size(), 0);
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model_->config().vocab_size));
  const auto ints = [](const std::vector<int32_t>& v, std::initializer_list<int64_t> dims) {
    return make_tensor(static_cast<const void*>(v.data()), DType::kI32, dims);
  };
  const BatchLayout batch{
      .positions = ints(positions, {count}),
      .sequence_of = ints(sequence, {count}),
      .block_table = ints(block_table_, {1, static_cast<int64_t>(block_table_.size())}),
      .max_context = static_cast<int32_t>(length_ + count)};
  floats_.clear();
  ints_.clear();
  const std::function<void(std::string_view, int, ConstTensor)> observe =
      [&](std::string_view name, int layer, ConstTensor t) {
        const std::string key = std::string(name) + "." + std::to_string(layer);
        const auto elements = static_cast<size_t>(t.elements());
        if (t.dtype == DType::kI32) {
          ints_[key].assign(t.as<int32_t>(), t.as<int32_t>() + elements);
        } else {
          floats_[key].assign(t.as<float>(), t.as<float>() + elements);
        }
      };
  const auto forward = [&](const KernelTable& kernels, Scratch& scratch, bool watched) {
    ForwardContext context{
        .queue = *queue_,
        .kernels = kernels,
        .scratch = scratch,
        .batch = batch,
        .token_ids = make_tensor(static_cast<const void*>(tokens.data()), DType::kI32, {count}),
        .sampled_rows = ints(rows, {count}),
        .kv_blocks = pool_.data(),
        .logits = make_tensor(
            static_cast<void*>(logits.data()), DType::kF32, {count, model_->config().vocab_size})};
    if (watched) context.observe = &observe;
    model_->forward(context);
  };
  Scratch plan;
  forward(planning_kernels(), plan, false);
  scratch_.resize(plan.peak_bytes() + 256);
  void* base = scratch_.data();
  size_t space = scratch_.size();
  BATON_CHECK(std::align(256, plan.peak_bytes(), base, space) != nullptr);
  std::memset(base, 0x7f, plan.peak_bytes());
  Scratch scratch(base, plan.peak_bytes());
  forward(*kernels_, scratch, true);
  BATON_CHECK(queue_->synchronize().has_value());
  length_ += count;
  return logits;
}

std::vector<float> ModelHarness::run_chunks(std::span<const int32_t> tokens,
                                            const std::vector<int64_t>& chunks) {
  std::vector<float> all;
  size_t at = 0;
  const auto take = [&](size_t count) {
    count = std::min(count, tokens.size() - at);
    if (count == 0) return;
    const std::vector<float> part = run(tokens.subspan(at, count));
    all.insert(all.end(), part.begin(), part.end());
    at += count;
  };
  for (const int64_t chunk : chunks) take(static_cast<size_t>(chunk));
  take(tokens.size());
  return all;
}

std::vector<uint8_t> ModelHarness::kv_bytes() const {
  const BlockLayout& layout = model_->block_layout();
  std::vector<uint8_t> bytes;
  for (size_t b = 0; static_cast<int64_t>(b) * kBlockTokens < length_; ++b) {
    const int64_t filled =
        std::min<int64_t>(kBlockTokens, length_ - static_cast<int64_t>(b) * kBlockTokens);
    const uint8_t* block =
        pool_.data() + static_cast<int64_t>(block_table_[b]) * layout.stride_bytes;
    for (const LayerOffsets& layer : layout.layers) {
      const int64_t row = model_->config().is_latent() ? latent_row_bytes(layout.latent)
                                                       : plain_row_bytes(layout.plain);
      bytes.insert(bytes.end(), block + layer.rows, block + layer.rows + row * filled);
      if (layer.index == kNoOffset) continue;
      // Keys of the filled slots; fp8 scales follow all 64 keys.
      const int64_t width = layout.index.format == IndexKeyFormat::kF32    ? 4
                            : layout.index.format == IndexKeyFormat::kBF16 ? 2
                                                                           : 1;
      const uint8_t* page = block + layer.index;
      bytes.insert(bytes.end(), page, page + width * layout.index.dim * filled);
      if (layout.index.format == IndexKeyFormat::kFp8) {
        const uint8_t* scales = page + int64_t{kBlockTokens} * layout.index.dim;
        bytes.insert(bytes.end(), scales, scales + 4 * filled);
      }
    }
  }
  return bytes;
}

}  // namespace baton::testing
