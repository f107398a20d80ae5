// What the kernel contract promises beyond values, for every table of the host: bits that do
// not depend on the batch, the chunking or the threads; 64-bit addressing; total orders.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cases/cached_context.h"
#include "kernels/cpu/levels.h"
#include "kernels/tables.h"

namespace baton {
namespace {

std::vector<const KernelTable*> host_tables() {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (const KernelTable* table : cpu_levels()) {
    if (table != &reference_kernels()) tables.push_back(table);
  }
  return tables;
}

class Contract : public testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& table_ = *GetParam();
  std::unique_ptr<Device> device_ = *open_device("cpu", 2);
  std::unique_ptr<Queue> queue_ = *device_->create_queue();
  CaseMemory memory_{*device_, *queue_, 17};
};

std::string table_name(const testing::TestParamInfo<const KernelTable*>& tested) {
  return std::string(tested.param->name);
}

INSTANTIATE_TEST_SUITE_P(Host, Contract, testing::ValuesIn(host_tables()), table_name);

Tensor mutable_view(const ConstTensor& t) {
  return {{const_cast<void*>(t.data), t.dtype, t.rank, t.dims, t.strides}};
}
ConstTensor part(const ConstTensor& t, int64_t first, int64_t count) {
  return rows(mutable_view(t), first, count);
}
BatchLayout part(const BatchLayout& batch, int64_t first, int64_t count) {
  return {.positions = part(batch.positions, first, count),
          .sequence_of = part(batch.sequence_of, first, count),
          .block_table = batch.block_table,
          .max_context = batch.max_context};
}

// Equal as bits: NaN equals NaN, and -0 differs from +0.
bool same_bits(const Tensor& a, const Tensor& b) {
  BATON_CHECK(a.contiguous() && b.contiguous() && a.bytes() == b.bytes());
  return std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

bool same_bits(const CaseResult& a, const CaseResult& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const CaseOutput& x = a.outputs[i];
    const CaseOutput& y = b.outputs[i];
    if (x.integers != y.integers || x.floats.size() != y.floats.size()) return false;
    if (x.floats.empty()) continue;
    if (std::memcmp(x.floats.data(), y.floats.data(), 4 * x.floats.size()) != 0) return false;
  }
  return true;
}

TEST_P(Contract, TheNumberOfThreadsNeverChangesABit) {
  const std::unique_ptr<Device> one = *open_device("cpu", 1);
  const std::unique_ptr<Queue> one_queue = *one->create_queue();
  const std::unique_ptr<Device> three = *open_device("cpu", 3);
  const std::unique_ptr<Queue> three_queue = *three->create_queue();
  for (const KernelCase& kernel_case : all_kernel_cases()) {
    EXPECT_TRUE(same_bits(run_case(table_, *one, *one_queue, kernel_case),
                          run_case(table_, *three, *three_queue, kernel_case)))
        << kernel_case.name;
  }
}

TEST_P(Contract, ATokenAloneHasTheBitsItHasInABatchOfAMatmul) {
  for (const WeightForm form : {WeightForm::kF32,
                                WeightForm::kBF16,
                                WeightForm::kF16,
                                WeightForm::kFp8Block,
                                WeightForm::kNvfp4}) {
    for (const int64_t k : {16, 144, 1040}) {
      for (const int64_t m : {2, 3, 6, 13, 16, 31, 70}) {
        const WeightView weight = memory_.weight(form, 75, k);
        const ConstTensor x = memory_.normal_input({m, k}, {.rows = 1});
        const Tensor batch = memory_.output(DType::kF32, {m, 75});
        const Tensor alone = memory_.output(DType::kF32, {m, 75});
        table_.matmul(*queue_, {.x = x, .weight = weight, .bias = {}, .out = batch});
        for (int64_t i = 0; i < m; ++i) {
          table_.matmul(
              *queue_,
              {.x = part(x, i, 1), .weight = weight, .bias = {}, .out = rows(alone, i, 1)});
        }
        EXPECT_TRUE(same_bits(batch, alone)) << weight_form_name(form) << " " << k << " " << m;
      }
    }
  }
}

TEST_P(Contract, ATokenAloneHasTheBitsItHasInABatchOfAHeadMatmul) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const ConstTensor weight =
        memory_.stored_input(memory_.normals(int64_t{3} * 40 * 72), {3, 40, 72}, dtype);
    const ConstTensor x = memory_.normal_input({23, 3, 72});
    const Tensor batch = memory_.output(DType::kF32, {23, 3, 40});
    const Tensor alone = memory_.output(DType::kF32, {23, 3, 40});
    table_.head_matmul(*queue_, {.x = x, .weight = weight, .out = batch});
    for (int64_t i = 0; i < 23; ++i) {
      table_.head_matmul(*queue_, {.x = part(x, i, 1), .weight = weight, .out = rows(alone, i, 1)});
    }
    EXPECT_TRUE(same_bits(batch, alone));
  }
}

TEST_P(Contract, ATokenAloneHasTheBitsItHasInABatchOfExperts) {
  for (const WeightForm form : {WeightForm::kBF16, WeightForm::kFp8Block, WeightForm::kNvfp4}) {
    std::vector<WeightView> matrices;
    for (int e = 0; e < 4; ++e) {
      matrices.push_back(memory_.weight(form, 48, 64));
      matrices.push_back(memory_.weight(form, 48, 64));
      matrices.push_back(memory_.weight(form, 64, 48));
    }
    std::vector<int32_t> chosen;
    for (int t = 0; t < 30; ++t) {
      const auto first = static_cast<int32_t>(memory_.uniform(0, 2));
      chosen.push_back(first);
      chosen.push_back(static_cast<int32_t>(memory_.uniform(first + 1, 3)));
    }
    MoeArgs args{.x = memory_.normal_input({30, 64}),
                 .experts = memory_.input(chosen, {30, 2}),
                 .weights = memory_.normal_input({30, 2}),
                 .matrices = matrices.data(),
                 .expert_count = 4,
                 .intermediate = 48,
                 .workspace = memory_.workspace({180, 64}),
                 .out = memory_.output(DType::kF32, {30, 64})};
    table_.moe(*queue_, args);
    const Tensor alone = memory_.output(DType::kF32, {30, 64});
    for (int64_t i = 0; i < 30; ++i) {
      MoeArgs one = args;
      one.x = part(args.x, i, 1);
      one.experts = part(args.experts, i, 1);
      one.weights = part(args.weights, i, 1);
      one.out = rows(alone, i, 1);
      table_.moe(*queue_, one);
    }
    EXPECT_TRUE(same_bits(args.out, alone)) << weight_form_name(form);
  }
}

// LC-11: a prompt stored and attended to in chunks of any size, as one call would do it.
TEST_P(Contract, ChunkedPrefillOfMlaHasTheBitsOfOneCall) {
  constexpr int64_t kTokens = 150;
  for (const LatentRowFormat format : {LatentRowFormat::kF32,
                                       LatentRowFormat::kBF16,
                                       LatentRowFormat::kFp8,
                                       LatentRowFormat::kNvfp4}) {
    const LatentRow row{.format = format, .latent = 48, .rope = 16};
    const int64_t payload = kBlockTokens * latent_row_bytes(row);
    const CachedContext context = make_context(memory_, {{.context = kTokens, .fresh = kTokens}});
    const ConstTensor latent = memory_.normal_input({kTokens, 48});
    const ConstTensor rope = memory_.normal_input({kTokens, 16});
    const ConstTensor q_latent = memory_.normal_input({kTokens, 5, 48});
    const ConstTensor q_rope = memory_.normal_input({kTokens, 5, 16});
    const auto run = [&](int64_t chunk) {
      const LatentCache cache{.blocks = memory_.in_out_bytes(empty_blocks(context, payload)),
                              .block_stride = case_block_stride(payload),
                              .offset = kCaseOffset,
                              .row = row};
      const Tensor out = memory_.output(DType::kF32, {kTokens, 5, 48});
      for (int64_t first = 0; first < kTokens; first += chunk) {
        const int64_t count = std::min(chunk, kTokens - first);
        const BatchLayout batch = part(*context.batch, first, count);
        table_.store_latent(*queue_,
                            {.latent = part(latent, first, count),
                             .rope = part(rope, first, count),
                             .batch = batch,
                             .cache = cache});
        table_.mla_attention(*queue_,
                             {.q_latent = part(q_latent, first, count),
                              .q_rope = part(q_rope, first, count),
                              .batch = batch,
                              .cache = cache,
                              .selection = {},
                              .scale = 0.2F,
                              .out = rows(out, first, count)});
      }
      return out;
    };
    const Tensor whole = run(kTokens);
    for (const int64_t chunk : {1, 7, 64, 100}) EXPECT_TRUE(same_bits(whole, run(chunk))) << chunk;
  }
}

TEST_P(Contract, ASelectionOfEverythingHasTheBitsOfNoSelection) {
  for (const int64_t tokens : {1, 64, 150}) {
    const std::vector<SequenceShape> sequences = {{.context = 150, .fresh = tokens}};
    const CachedContext context = make_context(memory_, sequences);
    const LatentCache cache = filled_latent_cache(
        memory_, context, sequences, {.format = LatentRowFormat::kBF16, .latent = 64, .rope = 16});
    std::vector<int32_t> all(static_cast<size_t>(tokens * 160), -1);
    for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) {
      const auto first = all.begin() + static_cast<int64_t>(t) * 160;
      std::iota(first, first + context.positions[t] + 1, 0);
    }
    MlaAttentionArgs args{.q_latent = memory_.normal_input({tokens, 6, 64}),
                          .q_rope = memory_.normal_input({tokens, 6, 16}),
                          .batch = *context.batch,
                          .cache = cache,
                          .selection = {},
                          .scale = 0.2F,
                          .out = memory_.output(DType::kF32, {tokens, 6, 64})};
    table_.mla_attention(*queue_, args);
    const Tensor dense = args.out;
    args.selection = memory_.input(all, {tokens, 160});
    args.out = memory_.output(DType::kF32, {tokens, 6, 64});
    table_.mla_attention(*queue_, args);
    EXPECT_TRUE(same_bits(dense, args.out)) << tokens;
  }
}

TEST_P(Contract, GqaAndIndexScoresOfATokenDoNotDependOnItsNeighbours) {
  const std::vector<SequenceShape> sequences = {{90, 40}, {5, 5}, {200, 3}};
  const CachedContext context = make_context(memory_, sequences);
  const BatchLayout& batch = *context.batch;
  const int64_t tokens = batch.tokens();
  const PlainCache plain =
      filled_plain_cache(memory_,
                         context,
                         sequences,
                         {.format = PlainRowFormat::kBF16, .kv_heads = 2, .head_dim = 32});
  const IndexCache index = filled_index_cache(
      memory_, context, sequences, {.format = IndexKeyFormat::kFp8, .dim = 32}, false);
  const ConstTensor q = memory_.normal_input({tokens, 6, 32});
  const ConstTensor weights = memory_.normal_input({tokens, 6});
  const Tensor attended = memory_.output(DType::kF32, {tokens, 6, 32});
  const Tensor attended_alone = memory_.output(DType::kF32, {tokens, 6, 32});
  const Tensor scores = memory_.output(DType::kF32, {tokens, 200});
  const Tensor scores_alone = memory_.output(DType::kF32, {tokens, 200});
  table_.gqa_attention(*queue_,
                       {.q = q, .batch = batch, .cache = plain, .scale = 0.2F, .out = attended});
  table_.index_scores(*queue_, {q, weights, batch, index, 0.1F, 0, scores});
  for (int64_t t = 0; t < tokens; ++t) {
    const BatchLayout own = part(batch, t, 1);
    table_.gqa_attention(*queue_,
                         {.q = part(q, t, 1),
                          .batch = own,
                          .cache = plain,
                          .scale = 0.2F,
                          .out = rows(attended_alone, t, 1)});
    table_.index_scores(*queue_, {q, weights, batch, index, 0.1F, t, rows(scores_alone, t, 1)});
  }
  EXPECT_TRUE(same_bits(attended, attended_alone));
  EXPECT_TRUE(same_bits(scores, scores_alone));
}

TEST_P(Contract, LongReductionsKeepTheirDigits) {
  constexpr int64_t kLength = 1 << 18;
  // All positive: naive f32 summation would lose about four digits here.
  std::vector<float> x(kLength);
  std::vector<float> w(kLength);
  double exact = 0.0;
  for (size_t i = 0; i < kLength; ++i) {
    x[i] = 1.0F + 0.3F * memory_.normal();
    w[i] = 1.0F + 0.3F * memory_.normal();
    exact += static_cast<double>(x[i]) * static_cast<double>(w[i]);
  }
  const WeightView weight{.data = memory_.input(w, {1, kLength}).data,
                          .rows = 1,
                          .columns = kLength,
                          .form = WeightForm::kF32};
  const Tensor out = memory_.output(DType::kF32, {1, 1});
  table_.matmul(*queue_,
                {.x = memory_.input(x, {1, kLength}), .weight = weight, .bias = {}, .out = out});
  EXPECT_NEAR(static_cast<double>(*out.as<float>()) / exact, 1.0, 2e-5);
}

// Address space without memory behind it: only touched pages cost anything.
class Reservation {
 public:
  explicit Reservation(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr,
                   bytes,
                   PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1,
                   0)) {}
  ~Reservation() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  void* data() const { return data_ == MAP_FAILED ? nullptr : data_; }

 private:
  size_t bytes_;
  void* data_;
};

// LC-02, LC-03: tokens x context and block x stride both pass 2^32.
TEST_P(Contract, ScoresAndBlocksBeyond32BitsAreAddressedRight) {
  constexpr int64_t kRowStride = (int64_t{1} << 31) + 1024;  // elements
  constexpr int64_t kBlockStride = int64_t{3} << 30;         // bytes
  const Reservation scores_memory(static_cast<size_t>(3 * kRowStride * 4));
  const Reservation pool(static_cast<size_t>(4 * kBlockStride));
  if (scores_memory.data() == nullptr || pool.data() == nullptr) {
    GTEST_SKIP() << "no address space";
  }
  const IndexPage page{.format = IndexKeyFormat::kF32, .dim = 16};
  const std::vector<int32_t> table = {3, 1, 2};
  for (int32_t p = 0; p < 130; ++p) {
    std::vector<float> key(16, 0.0F);
    key[0] = static_cast<float>(p + 1);
    encode_index_key(
        page,
        key.data(),
        static_cast<uint8_t*>(pool.data()) + table[static_cast<size_t>(p / 64)] * kBlockStride,
        p % 64);
  }
  const BatchLayout batch{.positions = memory_.input(std::vector<int32_t>{10, 70, 129}, {3}),
                          .sequence_of = memory_.input(std::vector<int32_t>{0, 0, 0}, {3}),
                          .block_table = memory_.input(table, {1, 3}),
                          .max_context = 130};
  Tensor scores = make_tensor(scores_memory.data(), DType::kF32, {3, 130});
  scores.strides[0] = kRowStride;
  const IndexCache cache{.blocks = static_cast<uint8_t*>(pool.data()),
                         .block_stride = kBlockStride,
                         .offset = 0,
                         .page = page};
  std::vector<float> q(3 * 16, 0.0F);
  q[0] = q[16] = q[32] = 1.0F;
  const ConstTensor ones = memory_.input(std::vector<float>{1.0F, 1.0F, 1.0F}, {3, 1});
  table_.index_scores(*queue_, {memory_.input(q, {3, 1, 16}), ones, batch, cache, 1.0F, 0, scores});
  for (int64_t r = 0; r < 3; ++r) {
    for (int32_t p = 0; p < 130; ++p) {
      const bool visible = p <= batch.positions.as<int32_t>()[r];
      EXPECT_EQ(scores.as<float>()[r * kRowStride + p],
                visible ? static_cast<float>(p + 1) : -INFINITY);
    }
  }
  const Tensor selection = memory_.output(DType::kI32, {3, 2});
  table_.select_top_k(*queue_,
                      {.scores = scores, .batch = batch, .first_token = 0, .selection = selection});
  const int32_t* chosen = selection.as<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(chosen, chosen + 6),
            (std::vector<int32_t>{9, 10, 69, 70, 128, 129}));
}

// LC-02: contexts around every tile and count that a table could have a limit at.
TEST_P(Contract, ASelectionIsThatOfASortAtEveryLength) {
  for (const int32_t edge : {8, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}) {
    for (const int32_t context : {edge - 1, edge, edge + 1}) {
      // Few different values: most of them are ties.
      const std::vector<float> scores = memory_.small_integers(context, -300, 300);
      const BatchLayout batch{
          .positions = memory_.input(std::vector<int32_t>{context - 1}, {1}),
          .sequence_of = memory_.input(std::vector<int32_t>{0}, {1}),
          .block_table =
              memory_.input(std::vector<int32_t>((context + 63) / 64, 0), {1, (context + 63) / 64}),
          .max_context = context};
      const ConstTensor input = memory_.input(scores, {1, context});
      std::vector<int32_t> order(static_cast<size_t>(context));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
        return scores[static_cast<size_t>(x)] > scores[static_cast<size_t>(y)];
      });
      for (const size_t top_k : {8U, 2048U}) {
        const Tensor selection = memory_.output(DType::kI32, {1, static_cast<int64_t>(top_k)});
        table_.select_top_k(*queue_, {input, batch, 0, selection});
        std::vector<int32_t> expected(order);
        expected.resize(std::min(expected.size(), top_k));
        std::sort(expected.begin(), expected.end());
        expected.resize(top_k, -1);
        const int32_t* got = selection.as<int32_t>();
        EXPECT_EQ(std::vector<int32_t>(got, got + top_k), expected) << context << " " << top_k;
      }
    }
  }
}

// LC-05: one key far above the others is found wherever it lies and however long the context is.
TEST_P(Contract, AnOutstandingKeyIsSelectedAtEveryDepth) {
  constexpr int64_t kTopK = 8;
  constexpr int64_t kDim = 128;
  constexpr int64_t kHeads = 2;
  const std::vector<float> query = memory_.normals(kHeads * kDim);
  for (const IndexKeyFormat format :
       {IndexKeyFormat::kF32, IndexKeyFormat::kBF16, IndexKeyFormat::kFp8}) {
    const IndexPage page{.format = format, .dim = kDim};
    for (const int32_t context : {8, 16, 80, 800, 8000}) {
      const int32_t blocks = (context + 63) / 64;
      const int64_t stride = index_page_bytes(page) + 64;
      std::vector<int32_t> table(static_cast<size_t>(blocks));
      for (int32_t i = 0; i < blocks; ++i) table[static_cast<size_t>(i)] = blocks - 1 - i;
      std::vector<uint8_t> pool(static_cast<size_t>(blocks * stride), 0xff);
      const auto store = [&](int32_t p, const std::vector<float>& key) {
        encode_index_key(
            page, key.data(), pool.data() + table[static_cast<size_t>(p / 64)] * stride, p % 64);
      };
      for (int32_t p = 0; p < context; ++p) store(p, memory_.normals(kDim));
      const BatchLayout batch{.positions = memory_.input(std::vector<int32_t>{context - 1}, {1}),
                              .sequence_of = memory_.input(std::vector<int32_t>{0}, {1}),
                              .block_table = memory_.input(table, {1, blocks}),
                              .max_context = context};
      const ConstTensor q = memory_.input(query, {1, kHeads, kDim});
      const ConstTensor weights = memory_.input(std::vector<float>(kHeads, 1.0F), {1, kHeads});
      std::vector<float> outstanding(query.begin(), query.begin() + kDim);
      for (float& value : outstanding) value *= 5.0F;
      for (int32_t depth = 0; depth < 10; ++depth) {
        const int32_t at = (context - 1) * depth / 9;
        store(at, outstanding);
        const Tensor scores = memory_.workspace({1, context});
        const Tensor selection = memory_.output(DType::kI32, {1, kTopK});
        const IndexCache cache{
            .blocks = pool.data(), .block_stride = stride, .offset = 0, .page = page};
        table_.index_select(*queue_, {q, weights, batch, cache, 0.1F, scores, selection});
        const int32_t* chosen = selection.as<int32_t>();
        EXPECT_NE(std::find(chosen, chosen + kTopK, at), chosen + kTopK)
            << "context " << context << ", position " << at;
        store(at, memory_.normals(kDim));
      }
    }
  }
}

// LC-01: a reused selection buffer full of old indices must not show through.
TEST_P(Contract, ASelectionOverwritesWhateverItsBufferHeld) {
  const std::vector<SequenceShape> sequences = {{.context = 5, .fresh = 3}};
  const CachedContext context = make_context(memory_, sequences);
  const Tensor selection = memory_.output(DType::kI32, {3, 8});
  std::fill_n(selection.as<int32_t>(), 24, 1 << 30);
  table_.select_top_k(*queue_,
                      {.scores = memory_.normal_input({3, 5}),
                       .batch = *context.batch,
                       .first_token = 0,
                       .selection = selection});
  for (int32_t r = 0; r < 3; ++r) {
    for (int32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(selection.as<int32_t>()[r * 8 + i], i <= r + 2 ? i : -1);
    }
  }
}

// LC-06: the two layouts, against complex numbers; and they must not be the same thing.
TEST_P(Contract, RopePairsNeighboursOrHalvesAsTheModelDeclares) {
  for (const int32_t position : {0, 3, 20001, 1000003}) {
    const std::vector<float> values = memory_.normals(8);
    const std::vector<float> inv_freq = {1.0F, 0.1F, 0.01F, 0.001F};
    for (const bool interleaved : {true, false}) {
      const Tensor x = memory_.in_out(values, {1, 1, 8});
      table_.rope(*queue_,
                  {.x = x,
                   .positions = memory_.input(std::vector<int32_t>{position}, {1}),
                   .inv_freq = memory_.input(inv_freq, {4}),
                   .attention_factor = 1.0F,
                   .interleaved = interleaved});
      for (size_t i = 0; i < 4; ++i) {
        const size_t a = interleaved ? 2 * i : i;
        const size_t b = interleaved ? 2 * i + 1 : i + 4;
        const double angle = static_cast<double>(inv_freq[i] * static_cast<float>(position));
        EXPECT_NEAR(
            x.as<float>()[a], values[a] * std::cos(angle) - values[b] * std::sin(angle), 2e-6);
        EXPECT_NEAR(
            x.as<float>()[b], values[a] * std::sin(angle) + values[b] * std::cos(angle), 2e-6);
      }
    }
  }
}

// LC-14: logits of many positions can be made slice by slice, with the same bits.
TEST_P(Contract, LogitsMadeInSlicesHaveTheBitsOfOneCall) {
  const WeightView head = memory_.weight(WeightForm::kBF16, 333, 64);
  const ConstTensor hidden = memory_.normal_input({50, 64});
  std::vector<int32_t> order(50);
  std::iota(order.begin(), order.end(), 0);
  const ConstTensor row_ids = memory_.input(order, {50});
  const Tensor whole = memory_.output(DType::kF32, {50, 333});
  const Tensor sliced = memory_.output(DType::kF32, {50, 333});
  table_.matmul(*queue_, {.x = hidden, .weight = head, .bias = {}, .out = whole});
  for (int64_t first = 0; first < 50; first += 16) {
    const int64_t count = std::min<int64_t>(16, 50 - first);
    const Tensor slice = memory_.output(DType::kF32, {count, 64});
    table_.gather_rows(*queue_, {hidden, part(row_ids, first, count), slice});
    table_.matmul(*queue_,
                  {.x = slice, .weight = head, .bias = {}, .out = rows(sliced, first, count)});
  }
  EXPECT_TRUE(same_bits(whole, sliced));
}

// Every code of fp8 in every place of a vector: the values of the reference, NaN where it has NaN.
TEST_P(Contract, EveryCodeOfFp8IsReadAsTheReferenceReadsIt) {
  constexpr int64_t kRows = 256;
  constexpr int64_t kColumns = 215;  // wide steps, single vectors and an incomplete one
  std::vector<uint8_t> codes(kRows * kColumns, 0x38);  // 1.0
  for (int64_t r = 0; r < kRows; ++r) {
    codes[static_cast<size_t>(r * kColumns + r * 7 % kColumns)] = static_cast<uint8_t>(r);
  }
  const float scale = 0.5F;
  const WeightView weight{.data = codes.data(),
                          .scales = &scale,
                          .rows = kRows,
                          .columns = kColumns,
                          .block_rows = 256,
                          .block_columns = 256,
                          .form = WeightForm::kFp8Block};
  for (const int64_t m : {1, 2, 5, 6}) {
    const std::vector<float> ones(static_cast<size_t>(m * kColumns), 1.0F);
    const ConstTensor x =
        make_tensor(static_cast<const void*>(ones.data()), DType::kF32, {m, weight.columns});
    const Tensor got = memory_.output(DType::kF32, {m, kRows});
    const Tensor want = memory_.output(DType::kF32, {m, kRows});
    table_.matmul(*queue_, {.x = x, .weight = weight, .bias = {}, .out = got});
    reference_kernels().matmul(*queue_, {.x = x, .weight = weight, .bias = {}, .out = want});
    int64_t nans = 0;
    for (int64_t i = 0; i < m * kRows; ++i) {
      const float a = got.as<float>()[i];
      const float b = want.as<float>()[i];
      EXPECT_EQ(std::isnan(a), std::isnan(b)) << "code " << i % kRows;
      if (!std::isnan(b)) {
        EXPECT_FLOAT_EQ(a, b) << "code " << i % kRows;
      }
      nans += std::isnan(b) ? 1 : 0;
    }
    EXPECT_EQ(nans, 2 * m);
  }
}

}  // namespace
}  // namespace baton
