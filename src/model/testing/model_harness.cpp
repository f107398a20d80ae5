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

namespace {

Buffer taken(Result<Buffer> buffer) {
  BATON_CHECK(buffer.has_value(), buffer.error().message);
  return std::move(*buffer);
}

void finish(Queue& queue) {
  const Status done = queue.synchronize();
  BATON_CHECK(done.has_value(), done.error().message);
}

template <typename T>
std::vector<T> download(Queue& queue, const ConstTensor& t) {
  std::vector<T> values(static_cast<size_t>(t.elements()));
  queue.copy(values.data(), t.data, static_cast<size_t>(t.bytes()));
  finish(queue);
  return values;
}

}  // namespace

Result<std::unique_ptr<ModelHarness>> ModelHarness::open(const std::string& folder,
                                                         const std::string& table,
                                                         const LoadOptions& options,
                                                         int64_t max_tokens,
                                                         int threads) {
  std::unique_ptr<ModelHarness> harness(new ModelHarness);
  harness->capture_ = table == "cuda_graph";
  const bool on_cuda = table.starts_with("cuda");
  Result<std::unique_ptr<Device>> device = open_device(on_cuda ? "cuda" : "cpu", threads);
  if (!device) return device.error();
  harness->device_ = std::move(*device);
  Result<const KernelTable*> kernels = table_for(*harness->device_, on_cuda ? "cuda" : table);
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
  harness->device_table_ = harness->upload(harness->block_table_);
  const int64_t stride = harness->model_->block_layout().stride_bytes;
  harness->pool_ = taken(harness->device_->allocate(static_cast<size_t>(2 * blocks * stride)));
  harness->restart();
  return harness;
}

void ModelHarness::restart() {
  queue_->fill(pool_.data(), 0x7f, pool_.size());  // NaN in every row format
  length_ = 0;
}

Buffer ModelHarness::upload(std::span<const int32_t> values) const {
  Buffer buffer = taken(device_->allocate(std::max<size_t>(values.size_bytes(), 1)));
  queue_->copy(buffer.data(), values.data(), values.size_bytes());
  finish(*queue_);
  return buffer;
}

void ModelHarness::forward(ForwardContext& context) {
  if (!capture_) return model_->forward(context);
  BATON_CHECK(queue_->begin_capture().has_value());
  model_->forward(context);
  const Result<std::unique_ptr<Graph>> graph = queue_->end_capture();
  BATON_CHECK(graph.has_value(), graph.error().message);
  queue_->replay(**graph);
  finish(*queue_);  // the graph must outlive its run
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
  const Buffer ids_memory = upload(tokens);
  const Buffer positions_memory = upload(positions);
  const Buffer sequence_memory = upload(std::vector<int32_t>(tokens.size(), 0));
  const Buffer rows_memory = upload(rows);
  const int64_t vocab = model_->config().vocab_size;
  const Buffer logits_memory =
      taken(device_->allocate(static_cast<size_t>(count * vocab) * sizeof(float)));
  const auto ints = [](const Buffer& buffer, std::initializer_list<int64_t> dims) {
    return make_tensor(static_cast<const void*>(buffer.data()), DType::kI32, dims);
  };
  const BatchLayout batch{
      .positions = ints(positions_memory, {count}),
      .sequence_of = ints(sequence_memory, {count}),
      .block_table = ints(device_table_, {1, static_cast<int64_t>(block_table_.size())}),
      .max_context = static_cast<int32_t>(length_ + count)};
  floats_.clear();
  ints_.clear();
  const std::function<void(std::string_view, int, ConstTensor)> observe =
      [&](std::string_view name, int layer, ConstTensor t) {
        const std::string key = std::string(name) + "." + std::to_string(layer);
        if (t.dtype == DType::kI32) {
          ints_[key] = download<int32_t>(*queue_, t);
        } else {
          floats_[key] = download<float>(*queue_, t);
        }
      };
  const auto context_of = [&](const KernelTable& kernels, Scratch& scratch) {
    return ForwardContext{.queue = *queue_,
                          .kernels = kernels,
                          .scratch = scratch,
                          .batch = batch,
                          .token_ids = ints(ids_memory, {count}),
                          .sampled_rows = ints(rows_memory, {count}),
                          .kv_blocks = static_cast<uint8_t*>(pool_.data()),
                          .logits = make_tensor(logits_memory.data(), DType::kF32, {count, vocab})};
  };
  Scratch plan;
  ForwardContext planned = context_of(planning_kernels(), plan);
  model_->forward(planned);
  if (scratch_.size() < plan.peak_bytes()) scratch_ = taken(device_->allocate(plan.peak_bytes()));
  queue_->fill(scratch_.data(), 0x7f, scratch_.size());
  queue_->fill(logits_memory.data(), 0x7f, logits_memory.size());
  Scratch scratch(scratch_.data(), plan.peak_bytes());
  ForwardContext context = context_of(*kernels_, scratch);
  if (!capture_) context.observe = &observe;
  forward(context);
  length_ += count;
  return download<float>(*queue_, context.logits);
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
  const std::vector<uint8_t> pool =
      download<uint8_t>(*queue_,
                        make_tensor(static_cast<const void*>(pool_.data()),
                                    DType::kU8,
                                    {static_cast<int64_t>(pool_.size())}));
  std::vector<uint8_t> bytes;
  for (size_t b = 0; static_cast<int64_t>(b) * kBlockTokens < length_; ++b) {
    const int64_t filled =
        std::min<int64_t>(kBlockTokens, length_ - static_cast<int64_t>(b) * kBlockTokens);
    const uint8_t* block =
        pool.data() + static_cast<int64_t>(block_table_[b]) * layout.stride_bytes;
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
