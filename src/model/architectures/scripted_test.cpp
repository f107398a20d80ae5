#include "model/architectures/scripted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "device/scratch.h"

namespace baton {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "scriptedXXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& write(const std::string& config, const std::string& scripts = "") const {
    std::ofstream(path_ + "/config.json") << config;
    if (!scripts.empty()) std::ofstream(path_ + "/scripts.json") << scripts;
    return path_;
  }

 private:
  std::string path_;
};

// Runs one sequence of `tokens` whose last one is sampled from.
std::vector<float> logits_of(const Model& model,
                             const std::vector<int32_t>& tokens,
                             int32_t outputs,
                             uint64_t request) {
  auto device = open_device("cpu", 1).value().release();
  const std::unique_ptr<Device> owner(device);
  auto queue = device->create_queue().value().release();
  const std::unique_ptr<Queue> queue_owner(queue);
  const int64_t count = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> positions(tokens.size()), sequence_of(tokens.size(), 0);
  for (size_t i = 0; i < tokens.size(); ++i) positions[i] = static_cast<int32_t>(i);
  const std::vector<int32_t> table{2, 1};
  const std::vector<int32_t> sampled{static_cast<int32_t>(count - 1)};
  const Buffer blocks =
      device->allocate(static_cast<size_t>(3 * model.block_layout().stride_bytes)).value();
  std::vector<float> logits(static_cast<size_t>(model.config().vocab_size), -7.0F);
  const std::vector<int32_t> output_counts{outputs};
  const std::vector<uint64_t> requests{request};
  const BatchLayout batch{
      .positions = make_tensor(static_cast<const void*>(positions.data()), DType::kI32, {count}),
      .sequence_of =
          make_tensor(static_cast<const void*>(sequence_of.data()), DType::kI32, {count}),
      .block_table = make_tensor(static_cast<const void*>(table.data()), DType::kI32, {1, 2}),
      .max_context = static_cast<int32_t>(count)};
  const KernelTable kernels{};
  std::vector<uint8_t> memory(64);
  Scratch scratch(memory.data(), memory.size());
  ForwardContext context{
      .queue = *queue,
      .kernels = kernels,
      .scratch = scratch,
      .batch = batch,
      .token_ids = make_tensor(static_cast<const void*>(tokens.data()), DType::kI32, {count}),
      .sampled_rows = make_tensor(static_cast<const void*>(sampled.data()), DType::kI32, {1}),
      .kv_blocks = static_cast<uint8_t*>(blocks.data()),
      .logits = make_tensor(logits.data(), DType::kF32, {1, model.config().vocab_size}),
      .output_counts = output_counts,
      .request_ids = requests};
  model.forward(context);
  return logits;
}

int32_t played(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

TEST(Scripted, PlaysItsScriptThenEos) {
  const Folder folder;
  auto model = load_scripted_model(folder.write(
      R"({"model_type": "scripted", "vocab_size": 300, "eos_token_id": 2, "scripts": ["ab"]})"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(played(logits_of(**model, {5}, 0, 0)), 'a');
  EXPECT_EQ(played(logits_of(**model, {5, 'a'}, 1, 0)), 'b');
  EXPECT_EQ(played(logits_of(**model, {5, 'a', 'b'}, 2, 0)), 2);
}

TEST(Scripted, ChoosesByPromptThenByTurn) {
  const Folder folder;
  auto model = load_scripted_model(folder.write(
      R"({"model_type": "scripted", "vocab_size": 64, "eos_token_id": 2, "script_file":
          "scripts.json"})",
      R"([[10], {"play": [11], "when": [7, 8]}, [12]])"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(played(logits_of(**model, {5}, 0, 0)), 10);
  EXPECT_EQ(played(logits_of(**model, {5}, 0, 1)), 12);
  EXPECT_EQ(played(logits_of(**model, {5, 7, 8, 5}, 0, 0)), 11);
  // Outputs are not part of the prompt.
  EXPECT_EQ(played(logits_of(**model, {5, 7, 8}, 1, 0)), 2);
}

TEST(Scripted, PlaysNanAndInfinityWhereAsked) {
  ScriptedOptions options;
  options.vocab_size = 8;
  options.scripts = {{.tokens = {3, 4, 5}, .when = {}, .nan_at = 1, .inf_at = 2}};
  const auto model = make_scripted_model(options);
  EXPECT_EQ(played(logits_of(*model, {1}, 0, 0)), 3);
  for (const float value : logits_of(*model, {1, 3}, 1, 0)) EXPECT_TRUE(std::isnan(value));
  for (const float value : logits_of(*model, {1, 3, 4}, 2, 0)) EXPECT_TRUE(std::isinf(value));
}

TEST(Scripted, HistoryDependsOnEveryToken) {
  ScriptedOptions options;
  options.mode = ScriptedMode::kHistory;
  options.vocab_size = 100000;
  options.eos_token_ids = {2};
  const auto model = make_scripted_model(options);
  std::vector<int32_t> tokens(100);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31);
  const int32_t token = played(logits_of(*model, tokens, 0, 0));
  EXPECT_EQ(token, scripted_history_token(options, tokens));
  tokens[3] += 1;
  EXPECT_NE(played(logits_of(*model, tokens, 0, 0)), token);
}

TEST(Scripted, SaysWhatIsWrongWithItsConfig) {
  const Folder folder;
  const auto message = [&](const std::string& config) {
    auto model = load_scripted_model(folder.write(config));
    return model ? std::string("accepted") : model.error().message;
  };
  EXPECT_THAT(message(R"({"model_type": "qwen3"})"), testing::HasSubstr("expected scripted"));
  EXPECT_THAT(message(R"({"model_type": "scripted"})"), testing::HasSubstr("vocab_size"));
  EXPECT_THAT(message(R"({"model_type": "scripted", "vocab_size": 9, "scripts": [[9]]})"),
              testing::HasSubstr("scripts[0]: token 9 is outside the vocabulary of 9"));
  EXPECT_THAT(message(R"({"model_type": "scripted", "vocab_size": 9, "mode": "x"})"),
              testing::HasSubstr("mode: expected script, copy or history"));
  EXPECT_THAT(
      message(R"({"model_type": "scripted", "vocab_size": 9, "scripts": [{"play": [], "b": 1}]})"),
      testing::HasSubstr("unknown or ill-typed key 'b'"));
}

}  // namespace
}  // namespace baton
