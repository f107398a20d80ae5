// The time of one decode step of a model on a device, without the engine around it: enqueued
// kernel by kernel, and replayed from a captured graph where the device has graphs. Median of
// many, host clock around a synchronisation.
//
//   decode_latency DEVICE [FOLDER...]        DEVICE: cpu, cuda; FOLDER: checkpoints
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "kernels/tables.h"
#include "model/model.h"

namespace baton {
namespace {

constexpr int kWarmups = 5;
constexpr int kRepeats = 51;

template <typename T>
T expect(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "decode_latency: %s\n", result.error().message.c_str());
    std::exit(2);
  }
  return std::move(*result);
}

// `batch` sequences whose next token is at position context - 1, in memory of their own.
class DecodeStep {
 public:
  DecodeStep(Device& device, const Model& model, int64_t batch, int32_t context)
      : queue_(expect(device.create_queue())),
        kernels_(*expect(table_for(device, "auto"))),
        model_(model) {
    const int64_t blocks = (context + kBlockTokens - 1) / kBlockTokens;
    std::vector<int32_t> sequence;
    std::vector<int32_t> table;
    for (int64_t i = 0; i < batch; ++i) sequence.push_back(static_cast<int32_t>(i));
    for (int64_t i = 0; i < batch * blocks; ++i) table.push_back(static_cast<int32_t>(i));
    const auto same = [&](int32_t value) {
      return std::vector<int32_t>(static_cast<size_t>(batch), value);
    };
    batch_ = {.positions = upload(device, same(context - 1), {batch}),
              .sequence_of = upload(device, sequence, {batch}),
              .block_table = upload(device, table, {batch, blocks}),
              .max_context = context};
    token_ids_ = upload(device, same(3), {batch});
    rows_ = upload(device, sequence, {batch});
    const auto pool_bytes = static_cast<size_t>(batch * blocks * model.block_layout().stride_bytes);
    pool_ = expect(device.allocate(pool_bytes));
    queue_->fill(pool_.data(), 0, pool_bytes);
    const int64_t vocab = model.config().vocab_size;
    logits_memory_ = expect(device.allocate(static_cast<size_t>(batch * vocab) * sizeof(float)));
    logits_ = make_tensor(logits_memory_.data(), DType::kF32, {batch, vocab});
    Scratch plan;
    forward(planning_kernels(), plan);
    scratch_ = expect(device.allocate(plan.peak_bytes()));
    synchronize();
  }

  double eager_us() {
    return median_us([&] { enqueue(); });
  }
  // Below 0: the device has no graphs.
  double replayed_us() {
    if (!queue_->supports_graphs() || !model_.supports_graphs()) return -1.0;
    BATON_CHECK(queue_->begin_capture().has_value());
    enqueue();
    const std::unique_ptr<Graph> graph = expect(queue_->end_capture());
    const double median = median_us([&] { queue_->replay(*graph); });
    synchronize();
    return median;
  }

 private:
  ConstTensor upload(Device& device,
                     const std::vector<int32_t>& values,
                     std::initializer_list<int64_t> dims) {
    const size_t bytes = values.size() * sizeof(int32_t);
    Buffer& buffer = inputs_.emplace_back(expect(device.allocate(bytes)));
    queue_->copy(buffer.data(), values.data(), bytes);
    synchronize();
    return make_tensor(static_cast<const void*>(buffer.data()), DType::kI32, dims);
  }
  void synchronize() {
    const Status done = queue_->synchronize();
    BATON_CHECK(done.has_value(), done.error().message);
  }
  void forward(const KernelTable& kernels, Scratch& scratch) {
    ForwardContext context{.queue = *queue_,
                           .kernels = kernels,
                           .scratch = scratch,
                           .batch = batch_,
                           .token_ids = token_ids_,
                           .sampled_rows = rows_,
                           .kv_blocks = static_cast<uint8_t*>(pool_.data()),
                           .logits = logits_};
    model_.forward(context);
  }
  void enqueue() {
    Scratch scratch(scratch_.data(), scratch_.size());
    forward(kernels_, scratch);
  }
  template <typename Work>
  double median_us(const Work& work) {
    std::vector<double> times;
    for (int i = -kWarmups; i < kRepeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      work();
      synchronize();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      if (i >= 0) times.push_back(took.count());
    }
    std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
    return times[kRepeats / 2];
  }

  std::unique_ptr<Queue> queue_;
  const KernelTable& kernels_;
  const Model& model_;
  std::vector<Buffer> inputs_;
  Buffer pool_, logits_memory_, scratch_;
  BatchLayout batch_;
  ConstTensor token_ids_, rows_;
  Tensor logits_;
};

int run(const std::string& device_name, const std::vector<std::string>& folders) {
  const std::unique_ptr<Device> device = expect(open_device(device_name, 0));
  std::printf("decode step on %s, median of %d\n", device->description().c_str(), kRepeats);
  std::printf("| checkpoint             | batch | context |  eager us | graph us |\n");
  for (const std::string& folder : folders) {
    const std::unique_ptr<Model> model = expect(load_model(folder, *device, {}));
    const auto longest =
        static_cast<int32_t>(std::min<int64_t>(model->config().max_position_embeddings, 2048));
    for (const int64_t batch : {1, 8}) {
      for (const int32_t context : {64, longest}) {
        DecodeStep step(*device, *model, batch, context);
        const std::string name = folder.substr(folder.find_last_of('/') + 1);
        const double eager = step.eager_us();
        std::printf("| %-22s | %5d | %7d | %9.1f | %8.1f |\n",
                    name.c_str(),
                    static_cast<int>(batch),
                    context,
                    eager,
                    step.replayed_us());
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: decode_latency DEVICE FOLDER...\n");
    return 2;
  }
  baton::set_log(baton::LogLevel::kError, [](baton::LogLevel, std::string_view) {});
  return baton::run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}
