// What each KV row format costs: answers with bf16, fp8 and nvfp4 rows against those with f32
// rows. Stated per format and bounded. A row's rounding can change which tokens an indexer selects
// or which experts a router chooses, and from there the answer is another one; so the error is the
// median over positions, where such flips are rare, and the flips are counted beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "model/testing/checkpoint_editor.h"
#include "model/testing/model_harness.h"

namespace baton {
namespace {

using testing::ModelHarness;
using testing::read_golden;
using testing::relative_l2;

struct FormatCase {
  const char* folder;
  KvCacheDtype rows;
  KvCacheDtype keys;  // of the indexer
  double bound;       // of the median error
};

class RowFormat : public ::testing::TestWithParam<FormatCase> {};

struct Answers {
  std::vector<float> logits;
  std::vector<int32_t> selections;
  size_t vocab = 1;
};

Answers run(const char* folder, KvCacheDtype rows, KvCacheDtype keys) {
  LoadOptions options;
  options.kv_cache_dtype = rows;
  options.index_cache_dtype = keys;
  const std::string path = std::string("testdata/") + folder;
  auto harness = ModelHarness::open(path, "auto", options, 256);
  EXPECT_TRUE(harness) << harness.error().message;
  if (!harness) return {};
  Answers result;
  result.vocab = static_cast<size_t>((*harness)->model().config().vocab_size);
  result.logits = (*harness)->run(read_golden(path + "/golden.safetensors").at("input_ids").ints);
  for (const auto& [name, values] : (*harness)->ints()) {
    result.selections.insert(result.selections.end(), values.begin(), values.end());
  }
  return result;
}

TEST_P(RowFormat, MedianLogitErrorIsBounded) {
  const FormatCase& c = GetParam();
  const Answers want = run(c.folder, KvCacheDtype::kF32, KvCacheDtype::kF32);
  const Answers got = run(c.folder, c.rows, c.keys);
  ASSERT_EQ(got.logits.size(), want.logits.size());
  const size_t vocab = want.vocab;
  std::vector<double> errors;
  for (size_t at = 0; at < want.logits.size(); at += vocab) {
    errors.push_back(
        relative_l2({got.logits.data() + at, vocab}, {want.logits.data() + at, vocab}));
  }
  std::sort(errors.begin(), errors.end());
  const size_t count = want.selections.size();
  size_t same = 0;
  for (size_t i = 0; i < count; ++i) same += got.selections[i] == want.selections[i] ? 1 : 0;
  const double share =
      count == 0 ? 100.0 : 100.0 * static_cast<double>(same) / static_cast<double>(count);
  const double median = errors[errors.size() / 2];
  std::printf("| %-22s | %-12s | %-10s | %.1e | %.1e | %5.1f %% |\n",
              c.folder,
              std::string(kv_cache_dtype_name(c.rows)).c_str(),
              std::string(kv_cache_dtype_name(c.keys)).c_str(),
              median,
              errors.back(),
              share);
  EXPECT_GT(errors.back(), 0.0);
  EXPECT_LT(median, c.bound);
}

INSTANTIATE_TEST_SUITE_P(
    Formats,
    RowFormat,
    ::testing::Values(
        FormatCase{"glm4-moe-lite", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2},
        FormatCase{"glm4-moe-lite", KvCacheDtype::kFp8, KvCacheDtype::kF32, 1.5e-1},
        FormatCase{"glm4-moe-lite", KvCacheDtype::kNvfp4, KvCacheDtype::kF32, 5e-1},
        FormatCase{"deepseek-v3-yarn", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2},
        FormatCase{"deepseek-v3-yarn", KvCacheDtype::kFp8, KvCacheDtype::kF32, 1.5e-1},
        FormatCase{"deepseek-v3-yarn", KvCacheDtype::kNvfp4, KvCacheDtype::kF32, 5e-1},
        FormatCase{"deepseek-v2", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2},
        FormatCase{"deepseek-v2", KvCacheDtype::kFp8, KvCacheDtype::kF32, 1.5e-1},
        FormatCase{"deepseek-v2", KvCacheDtype::kNvfp4, KvCacheDtype::kF32, 5e-1},
        FormatCase{"glm-dsa-geometry", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2},
        FormatCase{"glm-dsa-geometry", KvCacheDtype::kFp8, KvCacheDtype::kF32, 1.5e-1},
        FormatCase{"glm-dsa-geometry", KvCacheDtype::kNvfp4, KvCacheDtype::kF32, 5e-1},
        FormatCase{"glm-dsa-geometry", KvCacheDtype::kF32, KvCacheDtype::kBF16, 1e-2},
        FormatCase{"glm-dsa-geometry", KvCacheDtype::kF32, KvCacheDtype::kFp8, 3e-1},
        FormatCase{"glm-dsa-list", KvCacheDtype::kBF16, KvCacheDtype::kBF16, 2e-2},
        FormatCase{"qwen3", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2},
        FormatCase{"qwen3-moe", KvCacheDtype::kBF16, KvCacheDtype::kF32, 2e-2}));

// The same rows whatever the pieces they were written in.
TEST(RowFormat, ChunksGiveTheBitsOfOnePassInEveryFormat) {
  for (const char* folder : {"glm-dsa-list", "glm-dsa-geometry", "glm4-moe-lite"}) {
    for (const KvCacheDtype rows :
         {KvCacheDtype::kBF16, KvCacheDtype::kFp8, KvCacheDtype::kNvfp4}) {
      LoadOptions options;
      options.kv_cache_dtype = rows;
      const std::string path = std::string("testdata/") + folder;
      auto harness = ModelHarness::open(path, "auto", options, 256);
      ASSERT_TRUE(harness) << harness.error().message;
      const auto ids = read_golden(path + "/golden.safetensors").at("input_ids").ints;
      const auto whole = (*harness)->run(ids);
      const auto bytes = (*harness)->kv_bytes();
      (*harness)->restart();
      EXPECT_EQ((*harness)->run_chunks(ids, {1, 15, 16, 17}), whole);
      EXPECT_EQ((*harness)->kv_bytes(), bytes);
    }
  }
}

}  // namespace
}  // namespace baton
