// Captured decode graphs without a graphics card: a queue that records closures and replays
// them, and a model made of kernels that enqueue closures. Work that is captured but read at
// capture time (a host value, an address that moves) gives wrong tokens here as on a device.
#include "engine/graph_plan.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/hash.h"
#include "engine/engine.h"
#include "kernels/tables.h"
#include "kv_cache/block_pool.h"
#include "model/model.h"

namespace baton {
namespace {

struct RecordedGraph final : Graph {
  std::vector<std::function<void()>> work;
};

class RecordingQueue final : public Queue {
 public:
  explicit RecordingQueue(bool can_capture) : can_capture_(can_capture) {}

  void enqueue(std::function<void()> work) {
    if (recording_) {
      recording_->work.push_back(std::move(work));
    } else {
      work();
    }
  }
  void copy(void* to, const void* from, size_t bytes) override {
    enqueue([=] { std::memcpy(to, from, bytes); });
  }
  void fill(void* to, uint8_t value, size_t bytes) override {
    enqueue([=] { std::memset(to, value, bytes); });
  }
  Status synchronize() override {
    BATON_CHECK(!recording_, "synchronize during capture");
    return {};
  }
  std::unique_ptr<Event> record() override { return nullptr; }
  bool supports_graphs() const override { return true; }
  Status begin_capture() override {
    if (!can_capture_) return unsupported("this queue only says it can");
    recording_ = std::make_unique<RecordedGraph>();
    return {};
  }
  Result<std::unique_ptr<Graph>> end_capture() override {
    return std::unique_ptr<Graph>(std::move(recording_));
  }
  void replay(const Graph& graph) override {
    for (const auto& work : dynamic_cast<const RecordedGraph&>(graph).work) work();
  }

 private:
  bool can_capture_;
  std::unique_ptr<RecordedGraph> recording_;
};

class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(bool can_capture) : can_capture_(can_capture) {}
  std::string_view name() const override { return "recording"; }
  std::string description() const override { return "records and replays"; }
  DeviceMemory memory() const override { return {1U << 30, 1U << 30}; }
  bool host_addressable() const override { return true; }
  Result<Buffer> allocate(size_t bytes) override {
    auto* memory = std::malloc(bytes);
    std::memset(memory, 0xa5, bytes);
    return Buffer(memory, bytes, [](void* p) { std::free(p); });
  }
  Result<Buffer> allocate_host(size_t bytes) override { return allocate(bytes); }
  Result<std::unique_ptr<Queue>> create_queue() override {
    return std::unique_ptr<Queue>(std::make_unique<RecordingQueue>(can_capture_));
  }

 private:
  bool can_capture_;
};

constexpr int64_t kVocab = 300;
constexpr PlainRow kRow{.format = PlainRowFormat::kF32, .kv_heads = 1, .head_dim = 2};

int32_t next_token(const std::vector<int32_t>& tokens) {
  return static_cast<int32_t>(hash_tokens(3, tokens) % kVocab);
}

// The model's three "kernels", in fields whose arguments have what they need.
void store_tokens(Queue& queue, const StorePlainArgs& args) {
  const ConstTensor tokens = args.keys;
  const BatchLayout batch = args.batch;
  const PlainCache cache = args.cache;
  dynamic_cast<RecordingQueue&>(queue).enqueue([=] {
    for (int64_t t = 0; t < tokens.dim(0); ++t) {
      const int32_t position = batch.positions.as<int32_t>()[t];
      const int64_t sequence = batch.sequence_of.as<int32_t>()[t];
      const int32_t block =
          batch.block_table
              .as<int32_t>()[sequence * batch.block_table.dim(1) + position / kBlockTokens];
      BATON_CHECK(block >= 0 && position < batch.max_context, block, position);
      std::memcpy(cache.blocks + block * cache.block_stride +
                      position % kBlockTokens * plain_row_bytes(cache.row),
                  tokens.as<int32_t>() + t,
                  sizeof(int32_t));
    }
  });
}

struct Work {
  BatchLayout batch;
  PlainCache cache;
  ConstTensor rows;
  Tensor logits;
};
void write_logits(const Work& work) {
  for (int64_t r = 0; r < work.rows.dim(0); ++r) {
    const int32_t token = work.rows.as<int32_t>()[r];
    const int32_t last = work.batch.positions.as<int32_t>()[token];
    const int64_t sequence = work.batch.sequence_of.as<int32_t>()[token];
    std::vector<int32_t> history;
    for (int32_t p = 0; p <= last; ++p) {
      const int32_t block =
          work.batch.block_table
              .as<int32_t>()[sequence * work.batch.block_table.dim(1) + p / kBlockTokens];
      int32_t value;
      std::memcpy(&value,
                  work.cache.blocks + block * work.cache.block_stride +
                      p % kBlockTokens * plain_row_bytes(work.cache.row),
                  sizeof value);
      history.push_back(value);
    }
    float* row = work.logits.as<float>() + r * kVocab;
    std::fill(row, row + kVocab, 0.0F);
    row[next_token(history)] = 1.0F;
  }
}

void recorded_argmax(Queue& queue, const ArgmaxArgs& args) {
  dynamic_cast<RecordingQueue&>(queue).enqueue(
      [&queue, args] { reference_kernels().argmax(queue, args); });
}

class RecordedModel final : public Model {
 public:
  explicit RecordedModel(int32_t drafts)
      : drafts_(drafts), layout_(make_block_layout({LayerCache::kPlain}, {}, {}, kRow)) {
    config_.vocab_size = kVocab;
    config_.max_position_embeddings = 20000;
  }
  const ModelConfig& config() const override { return config_; }
  const BlockLayout& block_layout() const override { return layout_; }
  void forward(ForwardContext& context) const override {
    if (context.scratch.planning()) return;
    const PlainCache cache{context.kv_blocks, layout_.stride_bytes, 0, kRow};
    context.kernels.store_plain(
        context.queue,
        {.keys = context.token_ids, .values = {}, .batch = context.batch, .cache = cache});
    const Work work{context.batch, cache, context.sampled_rows, context.logits};
    dynamic_cast<RecordingQueue&>(context.queue).enqueue([work] { write_logits(work); });
  }
  int32_t max_drafts() const override { return drafts_; }
  // As many as the position says; for every fifth position a wrong one.
  void draft(const DraftContext& context, std::vector<int32_t>& drafts) const override {
    std::vector<int32_t> tokens(context.tokens.begin(), context.tokens.end());
    const auto position = static_cast<int32_t>(tokens.size());
    for (int32_t i = 0; i < std::min(drafts_, position % 9); ++i) {
      tokens.push_back(next_token(tokens));
      const bool is_wrong = tokens.size() % 5 == 0;
      drafts.push_back(is_wrong ? (tokens.back() + 1) % int32_t{kVocab} : tokens.back());
    }
  }

 private:
  int32_t drafts_;
  BlockLayout layout_;
  ModelConfig config_;
};

const KernelTable& recorded_kernels() {
  static const KernelTable kTable = [] {
    KernelTable table = planning_kernels();
    table.store_plain = &store_tokens;
    table.argmax = &recorded_argmax;
    return table;
  }();
  return kTable;
}

// Runs `count` requests of different lengths to their ends and compares them with themselves
// computed alone.
EngineStats run_requests(bool can_capture, bool enable_graphs, size_t count, int32_t drafts = 0) {
  EngineOptions options;
  options.max_num_seqs = 12;  // not a power of two: the grid ends at it
  options.max_num_batched_tokens = 100;
  options.kv_cache_tokens = 64 * 400;
  options.enable_graphs = enable_graphs;
  auto engine = Engine::create(std::make_unique<RecordedModel>(drafts),
                               std::make_unique<RecordingDevice>(can_capture),
                               recorded_kernels(),
                               options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    return {};
  }
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
  std::vector<std::vector<int32_t>> outputs(count), expected(count);
  for (size_t i = 0; i < count; ++i) {
    Request request;
    request.id = i;
    for (size_t t = 0; t < 5 + 13 * i; ++t) request.prompt.push_back(static_cast<int32_t>(t % 50));
    request.sampling.temperature = 0.0F;
    request.sampling.max_tokens = static_cast<int32_t>(10 + 7 * i);
    std::vector<int32_t> tokens = request.prompt;
    for (int32_t t = 0; t < request.sampling.max_tokens; ++t) tokens.push_back(next_token(tokens));
    expected[i].assign(tokens.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()),
                       tokens.end());
    request.deliver = [&, i](StreamUpdate&& update) {
      const std::scoped_lock lock(mutex);
      for (const auto& token : update.tokens) outputs[i].push_back(token.token);
      if (update.finish) ++done;
      changed.notify_all();
    };
    EXPECT_TRUE((*engine)->submit(std::move(request)));
  }
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return done == count; }));
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(outputs[i], expected[i]) << "request " << i;
  lock.unlock();
  return (*engine)->stats();
}

TEST(GraphPlan, RoundsBatchesAndContextsUpToTheirGrid) {
  const GraphCell limits{.batch = 12, .context = 20000};
  EXPECT_EQ(graph_cell(1, 1, limits), (GraphCell{1, 4096}));
  EXPECT_EQ(graph_cell(3, 4096, limits), (GraphCell{4, 4096}));
  EXPECT_EQ(graph_cell(5, 4097, limits), (GraphCell{8, 16384}));
  EXPECT_EQ(graph_cell(9, 16385, limits), (GraphCell{12, 20000}));
  EXPECT_EQ(graph_cell(2, 100, {.batch = 8, .context = 512}), (GraphCell{2, 512}));
}

TEST(GraphPlan, ReplayedStepsGiveTheTokensOfEagerOnes) {
  EXPECT_EQ(run_requests(true, false, 20).graph_replays, 0);
  EXPECT_GT(run_requests(true, true, 20).graph_replays, 50);
}

// SD-08: batches are counted in tokens, so a step with drafts has a graph whatever the number of
// sequences. Eager are only the steps in which a prompt is computed.
TEST(GraphPlan, ReplaysStepsWithDrafts) {
  for (const size_t count : {2U, 5U, 12U}) {
    const EngineStats stats = run_requests(true, true, count, 6);
    EXPECT_GT(stats.accepted_drafts, 0);
    EXPECT_GT(stats.draft_tokens, stats.accepted_drafts);
    const EngineStats eager = run_requests(true, false, count, 6);
    EXPECT_EQ(eager.graph_replays, 0);
    EXPECT_EQ(eager.draft_tokens, stats.draft_tokens);
    int64_t prompt_tokens = 0;
    for (size_t i = 0; i < count; ++i) prompt_tokens += static_cast<int64_t>(5 + 13 * i);
    EXPECT_LE(stats.steps - stats.graph_replays, 2 + prompt_tokens / 40);
  }
}

TEST(GraphPlan, RunsEagerlyWhereCaptureFails) {
  EXPECT_EQ(run_requests(false, true, 5).graph_replays, 0);
}

TEST(GraphPlan, CapturesEachCellOnce) {
  RecordingQueue queue(true);
  GraphPlan graphs;
  int runs = 0, captures = 0;
  const auto work = [&] {
    ++captures;
    queue.enqueue([&] { ++runs; });
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(graphs.run(queue, {2, 4096}, work));
    EXPECT_TRUE(graphs.run(queue, {4, 4096}, work));
  }
  EXPECT_EQ(captures, 2);
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(graphs.replays(), 10);
}

}  // namespace
}  // namespace baton
