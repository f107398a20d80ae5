// load_model on folders that are almost right: what it accepts, and what it says otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/log.h"
#include "model/doctor.h"
#include "model/inspect.h"
#include "model/testing/checkpoint_editor.h"
#include "model/testing/model_harness.h"

namespace baton {
namespace {

using ::testing::AllOf;
using testing::CheckpointEditor;
using ::testing::Contains;
using testing::EditedTensor;
using testing::f32_tensor;
using ::testing::HasSubstr;
using testing::ModelHarness;
using ::testing::Not;
using testing::raw_tensor;
using testing::TempFolder;

constexpr const char* kList = "testdata/glm-dsa-list";

LoadOptions exact() {
  LoadOptions options;
  options.kv_cache_dtype = KvCacheDtype::kF32;
  return options;
}

// Keeps the log lines of its lifetime.
class LogCapture {
 public:
  LogCapture() {
    set_log(LogLevel::kInfo,
            [this](LogLevel, std::string_view text) { lines_.emplace_back(text); });
  }
  ~LogCapture() {
    set_log(LogLevel::kWarning, [](LogLevel, std::string_view) {});
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

std::vector<int32_t> prompt() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back((i * 37 + 11) % 250);
  return ids;
}

std::vector<float> logits_of(const std::string& folder, const LoadOptions& options) {
  auto harness = ModelHarness::open(folder, "reference", options, 64);
  EXPECT_TRUE(harness) << harness.error().message;
  return harness ? (*harness)->run(prompt()) : std::vector<float>();
}

std::vector<float> logits_of(const CheckpointEditor& editor, const LoadOptions& options) {
  const TempFolder folder;
  editor.write(folder.path());
  return logits_of(folder.path(), options);
}

std::string error_of(const CheckpointEditor& editor, const LoadOptions& options = exact()) {
  const TempFolder folder;
  editor.write(folder.path());
  const auto device = open_device("cpu", 1);
  const auto model = load_model(folder.path(), **device, options);
  if (model) return "no error";
  EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
  return model.error().message;
}

// ML-05
TEST(Load, ATiedHeadIsTheEmbedding) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/qwen3-tied");
  ASSERT_FALSE(editor.tensors.contains("lm_head.weight"));
  const auto tied = logits_of(editor, exact());
  editor.config["tie_word_embeddings"] = false;
  EXPECT_THAT(error_of(editor), HasSubstr("tensor 'lm_head.weight' is missing"));
  editor.tensors["lm_head.weight"] = editor.tensors["model.embed_tokens.weight"];
  EXPECT_EQ(logits_of(editor, exact()), tied);
}

// ML-06
TEST(Load, AHeadInTheFilesOfATiedModelIsUsedWithAWarningWhereItDiffers) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/qwen3-tied");
  const auto tied = logits_of(editor, exact());
  editor.tensors["lm_head.weight"] = editor.tensors["model.embed_tokens.weight"];
  {
    const LogCapture log;
    EXPECT_EQ(logits_of(editor, exact()), tied);
    EXPECT_THAT(log.lines(), Not(Contains(HasSubstr("lm_head"))));
  }
  std::string& bytes = editor.tensors["lm_head.weight"].bytes;
  for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] = static_cast<char>(bytes[i] ^ '\x80');
  const LogCapture log;
  const auto own = logits_of(editor, exact());
  EXPECT_THAT(log.lines(), Contains(HasSubstr("lm_head.weight differs")));
  for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i], -tied[i]);  // every sign was flipped
}

// ML-10
TEST(Load, MisshapenTensorsNameFileFoundExpectedAndTheConfigKeys) {
  const CheckpointEditor sound = CheckpointEditor::read(kList);
  const std::string wk = "model.layers.0.self_attn.indexer.wk.weight";
  CheckpointEditor editor = sound;
  editor.tensors[wk] = f32_tensor({32, 40}, std::vector<float>(32 * 40));
  EXPECT_THAT(error_of(editor),
              AllOf(HasSubstr(wk),
                    HasSubstr("model.safetensors"),
                    HasSubstr("got F32 [32, 40]"),
                    HasSubstr("[32 = index_head_dim, 64 = hidden_size]")));
  editor.tensors[wk] = raw_tensor(DType::kF64, {32, 64}, std::string(8 * 32 * 64, '\0'));
  EXPECT_THAT(error_of(editor), HasSubstr("expected F32, BF16 or F16"));
  EXPECT_THAT(error_of(editor), HasSubstr("got F64 [32, 64]"));
  editor.tensors[wk] = raw_tensor(DType::kI8, {32, 64}, std::string(32 * 64, '\0'));
  EXPECT_THAT(error_of(editor), AllOf(HasSubstr("got I8"), HasSubstr("without the scales")));
  editor = sound;
  editor.tensors["model.layers.1.mlp.gate.e_score_correction_bias"] =
      f32_tensor({9}, std::vector<float>(9));
  EXPECT_THAT(error_of(editor), HasSubstr("got F32 [9]"));
  editor = CheckpointEditor::read("testdata/qwen3");
  editor.tensors["model.layers.0.self_attn.qkv_proj.weight"] =
      editor.tensors["model.layers.0.self_attn.q_proj.weight"];
  editor.tensors.erase("model.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(error_of(editor),
              AllOf(HasSubstr("'model.layers.0.self_attn.q_proj.weight' is missing"),
                    HasSubstr("num_attention_heads * head_dim"),
                    HasSubstr("nearest unused name: 'model.layers.0.self_attn.qkv_proj.weight'")));
}

// ML-16
TEST(Load, KnownSuperfluousTensorsAreCountedAndOthersAreListed) {
  CheckpointEditor editor = CheckpointEditor::read(kList);
  const auto before = logits_of(editor, exact());
  editor.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = f32_tensor({4}, {1, 2, 3, 4});
  const std::string full = "model.layers.1.self_attn.indexer.";
  const std::string shared = "model.layers.3.self_attn.indexer.";
  std::vector<std::pair<std::string, testing::EditedTensor>> copies;
  for (const auto& [name, tensor] : editor.tensors) {
    if (name.starts_with(full)) copies.emplace_back(shared + name.substr(full.size()), tensor);
  }
  ASSERT_EQ(copies.size(), 5U);
  for (const auto& [name, tensor] : copies) editor.tensors[name] = tensor;
  {
    const LogCapture log;
    EXPECT_EQ(logits_of(editor, exact()), before);
    EXPECT_THAT(log.lines(), Contains(HasSubstr("skipped 47 tensors: MTP layer")));
    EXPECT_THAT(log.lines(), Contains(HasSubstr("skipped 5 tensors: indexer of a layer")));
    EXPECT_THAT(log.lines(), Contains(HasSubstr("skipped 1 tensors: rotary")));
  }
  editor.tensors["model.layers.2.mlp.gate.wieght"] = f32_tensor({1}, {0});
  {
    const LogCapture log;
    EXPECT_EQ(logits_of(editor, exact()), before);
    EXPECT_THAT(log.lines(),
                Contains(HasSubstr("'model.layers.2.mlp.gate.wieght' is used by nothing")));
  }
  LoadOptions strict = exact();
  strict.strict = true;
  editor.config.erase("index_topk_freq");
  editor.config.erase("index_skip_topk_offset");
  EXPECT_THAT(error_of(editor, strict),
              AllOf(HasSubstr("--strict"), HasSubstr("model.layers.2.mlp.gate.wieght")));
  editor.tensors["model.layers.2.mlp.gate.wieght"] =
      editor.tensors["model.layers.2.mlp.gate.weight"];
  editor.tensors.erase("model.layers.2.mlp.gate.weight");
  EXPECT_THAT(error_of(editor),
              AllOf(HasSubstr("'model.layers.2.mlp.gate.weight' is missing"),
                    HasSubstr("nearest unused name: 'model.layers.2.mlp.gate.wieght'")));
}

TEST(Load, StrictRefusesUnconsumedKeysAndContradictions) {
  CheckpointEditor editor = CheckpointEditor::read("testdata/glm-dsa-freq");
  LoadOptions strict = exact();
  strict.strict = true;
  EXPECT_EQ(error_of(editor, strict), "no error");
  editor.config["engram"] = {{"depth", 3}};
  EXPECT_EQ(error_of(editor), "no error");
  EXPECT_THAT(error_of(editor, strict),
              HasSubstr("1 keys that nothing uses (--strict): engram.depth"));
  EXPECT_THAT(error_of(CheckpointEditor::read(kList), strict), HasSubstr("contradicts"));
}

// ML-09
TEST(Load, ADeclaredMtpLayerThatTheFilesLackIsOneWarning) {
  CheckpointEditor editor = CheckpointEditor::read(kList);
  std::erase_if(editor.tensors,
                [](const auto& item) { return item.first.starts_with("model.layers.6."); });
  const LogCapture log;
  EXPECT_EQ(error_of(editor), "no error");
  EXPECT_THAT(log.lines(), Contains(HasSubstr("declares 1 MTP layer(s), the files have none")));
}

// LC-12 (c)
TEST(Load, AFullLayerWithoutItsIndexerIsAnError) {
  CheckpointEditor editor = CheckpointEditor::read(kList);
  std::erase_if(editor.tensors, [](const auto& item) {
    return item.first.starts_with("model.layers.4.self_attn.indexer.");
  });
  EXPECT_THAT(error_of(editor),
              AllOf(HasSubstr("model.layers.4.self_attn.indexer."),
                    HasSubstr("is missing"),
                    HasSubstr("4 more problems")));
}

TEST(Load, TheFormOfUnquantisedWeightsFollowsTheOption) {
  CheckpointEditor editor = CheckpointEditor::read(kList);
  const auto stored = logits_of(editor, exact());
  LoadOptions options = exact();
  options.dtype = "float32";
  EXPECT_EQ(logits_of(editor, options), stored);  // widening bf16 changes nothing
  options.dtype = "bfloat16";
  EXPECT_EQ(logits_of(editor, options), stored);
  editor = CheckpointEditor::read("testdata/glm-dsa-pattern");  // f32 weights
  const auto wide = logits_of(editor, exact());
  const double error = testing::relative_l2(logits_of(editor, options), wide);
  EXPECT_GT(error, 1e-4);
  EXPECT_LT(error, 0.5);
  options.dtype = "float16";
  EXPECT_THAT(error_of(editor, options), HasSubstr("dtype: expected auto, float32 or bfloat16"));
}

TEST(Load, TensorsAtOddAddressesGiveTheSameAnswers) {
  CheckpointEditor editor = CheckpointEditor::read(kList);
  const auto before = logits_of(editor, exact());
  // One byte in front moves every address of the file.
  editor.tensors["a"] = raw_tensor(DType::kU8, {1}, "x");
  EXPECT_EQ(logits_of(editor, exact()), before);
}

TEST(Load, ShardsGiveTheSameAnswersAsOneFile) {
  const CheckpointEditor editor = CheckpointEditor::read(kList);
  const TempFolder folder;
  editor.write(folder.path(), 3);
  EXPECT_EQ(logits_of(folder.path(), exact()), logits_of(kList, exact()));
}

TEST(Load, RowFormatsThatDoNotFitTheModelAreRefused) {
  LoadOptions options;
  options.kv_cache_dtype = KvCacheDtype::kFp8;
  EXPECT_THAT(error_of(CheckpointEditor::read("testdata/qwen3"), options),
              HasSubstr("kv cache dtype fp8_ds_mla: qwen3 stores plain keys and values"));
  options.kv_cache_dtype = KvCacheDtype::kAuto;
  options.index_cache_dtype = KvCacheDtype::kNvfp4;
  EXPECT_THAT(error_of(CheckpointEditor::read(kList), options), HasSubstr("index cache dtype"));
}

TEST(Load, ProgressEndsAtTheTotalAndNeverGoesBack) {
  LoadOptions options;
  std::vector<std::pair<int64_t, int64_t>> seen;
  options.progress = [&](int64_t done, int64_t total) { seen.emplace_back(done, total); };
  const auto device = open_device("cpu", 1);
  ASSERT_TRUE(load_model(kList, **device, options));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().first, seen.back().second);
  EXPECT_GT(seen.back().second, 900000);
}

// Bytes of a line of /proc/self/status.
int64_t memory_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// ML-14: 96 MB of f32 weights, used where they are mapped, or halved one tensor at a time.
// The CPU with less memory.
class SmallDevice final : public Device {
 public:
  explicit SmallDevice(size_t available) : available_(available) {}
  std::string_view name() const override { return cpu_->name(); }
  std::string description() const override { return cpu_->description(); }
  DeviceMemory memory() const override { return {available_, available_}; }
  bool host_addressable() const override { return true; }
  Result<Buffer> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  Result<Buffer> allocate_host(size_t bytes) override { return cpu_->allocate_host(bytes); }
  Result<std::unique_ptr<Queue>> create_queue() override { return cpu_->create_queue(); }

 private:
  std::unique_ptr<Device> cpu_ = open_device("cpu", 1).value();
  size_t available_;
};

TEST(Load, WeightsBeyondTheMemoryAreRefusedBeforeTheyAreRead) {
  SmallDevice roomy(1 << 30);
  const auto loaded = load_model(kList, roomy, exact());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto bytes = static_cast<size_t>((*loaded)->weights_bytes());
  EXPECT_GT((*loaded)->mapped_bytes(), 0);
  EXPECT_LE((*loaded)->mapped_bytes(), (*loaded)->weights_bytes());

  SmallDevice small(bytes - 1);
  const auto refused = load_model(kList, small, exact());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(kList),
                    HasSubstr(std::to_string(bytes) + " bytes"),
                    HasSubstr(std::to_string(bytes - 1) + " are available")));
}

TEST(Load, MemoryStaysNearTheWeightsAndSourcePagesAreGivenBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  const TempFolder folder;
  int64_t stored = 0;
  {
    CheckpointEditor editor = CheckpointEditor::read("testdata/qwen3");
    constexpr int64_t kVocab = 190000;
    const std::string zeros(4 * 64 * kVocab, '\0');
    editor.config["vocab_size"] = kVocab;
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      editor.tensors[name] = raw_tensor(DType::kF32, {kVocab, 64}, zeros);
      stored += static_cast<int64_t>(zeros.size());
    }
    editor.write(folder.path());
  }
  const auto device = open_device("cpu", 1);
  for (const auto& [dtype, share] : {std::pair{"auto", 0.0}, std::pair{"bfloat16", 0.5}}) {
    LoadOptions options;
    options.dtype = dtype;
    const int64_t own = memory_line("RssAnon");
    const int64_t mapped = memory_line("RssFile");
    const auto model = load_model(folder.path(), **device, options);
    ASSERT_TRUE(model) << model.error().message;
    const double allowed = share * static_cast<double>(stored) + 0.15 * static_cast<double>(stored);
    EXPECT_LT(static_cast<double>(memory_line("RssAnon") - own), allowed) << dtype;
    EXPECT_LT(static_cast<double>(memory_line("RssFile") - mapped),
              0.15 * static_cast<double>(stored))
        << dtype;
  }
}

// The tensors of `editor` in one file, behind a hole of `hole` bytes that is a tensor of its own.
void write_behind_a_hole(const CheckpointEditor& editor, const std::string& folder, int64_t hole) {
  testing::write_text(folder + "/config.json", dump_json(editor.config));
  const std::string file = testing::safetensors_bytes(editor.tensors);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  auto header = nlohmann::json::parse(file.substr(8, length));
  header.erase("__metadata__");
  for (auto& [name, tensor] : header.items()) {
    for (auto& offset : tensor["data_offsets"]) offset = offset.get<int64_t>() + hole;
  }
  header["a.hole"] = {{"dtype", "I8"}, {"shape", {hole}}, {"data_offsets", {0, hole}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::string path = folder + "/model.safetensors";
  testing::write_text(path, testing::with_header(text, ""));
  const auto at = static_cast<std::streamoff>(8 + text.size()) + hole;
  std::filesystem::resize_file(path, static_cast<uintmax_t>(at));
  std::ofstream out(path, std::ios::binary | std::ios::in);
  out.seekp(at);
  out.write(file.data() + 8 + length, static_cast<std::streamsize>(file.size() - 8 - length));
}

// ML-14: offsets beyond 31 and 32 bits. The hole takes no disk space and is never read.
TEST(Load, WeightsBehindGigabytesOfTheirFileAreFound) {
  const CheckpointEditor editor = CheckpointEditor::read(kList);
  const auto logits = logits_of(editor, exact());
  for (const int64_t hole : {(int64_t{1} << 31U) + 8, (int64_t{5} << 30U) + 4}) {
    const TempFolder folder;
    write_behind_a_hole(editor, folder.path(), hole);
    EXPECT_EQ(logits_of(folder.path(), exact()), logits);
    const auto doctor = examine_model(folder.path());
    ASSERT_TRUE(doctor && !doctor->problem);
    EXPECT_THAT(doctor->weights.unconsumed, ::testing::ElementsAre("a.hole"));
    const auto inspected = inspect_model(folder.path(), {});
    ASSERT_TRUE(inspected) << inspected.error().message;
    EXPECT_LT(inspected->weights_bytes, 10'000'000);
    std::filesystem::resize_file(folder / "model.safetensors", static_cast<uintmax_t>(hole));
    EXPECT_THAT(inspect_model(folder.path(), {}).error().message,
                AllOf(HasSubstr("model.safetensors"), HasSubstr(std::to_string(hole))));
  }
}

// What transformers 5 writes with save_original_format=False.
TEST(Load, FusedExpertsGiveTheLogitsOfSeparateOnes) {
  for (const char* name : {"testdata/glm-dsa-list", "testdata/qwen3-moe"}) {
    CheckpointEditor editor = CheckpointEditor::read(name);
    const auto separate = logits_of(editor, exact());
    const auto experts =
        editor.config.value("n_routed_experts", editor.config.value("num_experts", 0));
    ASSERT_GT(experts, 1);
    for (int64_t layer = 0; layer < editor.config["num_hidden_layers"]; ++layer) {
      const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      if (!editor.tensors.contains(stem + "0.down_proj.weight")) continue;
      EditedTensor gate_up, down;
      for (int e = 0; e < experts; ++e) {
        for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
          const auto at =
              editor.tensors.find(stem + std::to_string(e) + "." + projection + ".weight");
          EditedTensor& fused = projection == std::string("down_proj") ? down : gate_up;
          const int64_t halves = &fused == &gate_up ? 2 : 1;
          fused.dtype = at->second.dtype;
          fused.shape = {experts, halves * at->second.shape[0], at->second.shape[1]};
          fused.bytes += at->second.bytes;
          editor.tensors.erase(at);
        }
      }
      editor.tensors[stem + "gate_up_proj"] = gate_up;
      editor.tensors[stem + "down_proj"] = down;
    }
    EXPECT_EQ(logits_of(editor, exact()), separate) << name;
    const TempFolder folder;
    editor.write(folder.path(), 2);
    std::filesystem::remove(folder / "model-00001-of-00002.safetensors");
    std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
    const auto doctor = examine_model(folder.path());  // the index alone
    ASSERT_TRUE(doctor) << doctor.error().message;
    EXPECT_FALSE(doctor->problem) << *doctor->problem;
    EXPECT_THAT(doctor->weights.unconsumed, ::testing::IsEmpty());
  }
}

TEST(Load, NothingIsWrittenIntoTheModelFolder) {
  const TempFolder folder;
  CheckpointEditor::read(kList).write(folder.path(), 2);
  const auto names = [&] {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      list.push_back(entry.path().filename().string());
    }
    return list;
  };
  const auto before = names();
  (void)logits_of(folder.path(), exact());
  EXPECT_EQ(names(), before);
}

// A model that loads must also run; one that does not must say why. Dropping, renaming and
// reshaping tensors at random.
TEST(Load, RandomlyDamagedCheckpointsLoadAndRunOrExplainThemselves) {
  const LogCapture quiet;
  const CheckpointEditor sound = CheckpointEditor::read("testdata/glm-dsa-ties");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    CheckpointEditor editor = sound;
    auto at =
        std::next(editor.tensors.begin(), static_cast<ptrdiff_t>(random() % editor.tensors.size()));
    switch (random() % 4) {
      case 0:
        editor.tensors.erase(at);
        break;
      case 1:
        at->second.shape.push_back(1);
        break;
      case 2:
        at->second = f32_tensor({3}, {1, 2, 3});
        break;
      default:
        editor.tensors["extra." + at->first] = at->second;
        break;
    }
    const TempFolder folder;
    editor.write(folder.path());
    auto harness = ModelHarness::open(folder.path(), "reference", exact(), 64, 1);
    if (!harness) {
      ++refused;
      EXPECT_EQ(harness.error().message.find('\n'), std::string::npos);
      continue;
    }
    EXPECT_EQ((*harness)->run(prompt()).size(),
              40U * static_cast<size_t>((*harness)->model().config().vocab_size));
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace baton
