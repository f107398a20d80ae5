#include "model/weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/json.h"
#include "model/testing/checkpoint_editor.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using testing::CheckpointEditor;
using testing::EditedTensor;
using ::testing::ElementsAre;
using testing::f32_tensor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::raw_tensor;
using testing::TempFolder;
using testing::write_text;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

CheckpointEditor four_tensors() {
  CheckpointEditor editor;
  editor.config = Json::object();
  for (const char* name : {"a", "b", "c", "d"}) {
    editor.tensors[name] = f32_tensor({4, 256}, std::vector<float>(1024, 1.0F));
  }
  return editor;
}

std::string error_of(const std::string& folder) {
  const Result<Checkpoint> result = Checkpoint::open(folder);
  return result ? "no error" : result.error().message;
}

TEST(Checkpoint, OneFileOrShardsWithAnIndexGiveTheSameTensors) {
  for (const int shards : {1, 2, 4}) {
    const TempFolder folder;
    four_tensors().write(folder.path(), shards);
    const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensors().size(), 4U);
    EXPECT_EQ(checkpoint->files(), shards);
    EXPECT_EQ(checkpoint->bytes(), 4 * 4096);
    EXPECT_THAT(checkpoint->warnings(), IsEmpty());
    EXPECT_EQ(checkpoint->find("e"), nullptr);
  }
}

// ML-01
TEST(Checkpoint, ATruncatedShardIsNamedWithItsSizesAndTheFirstTensorOutside) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  const auto size = fs::file_size(folder / kSecond);
  fs::resize_file(folder / kSecond, size - 4096);
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr(kSecond),
                    HasSubstr("tensor 'd'"),
                    HasSubstr(std::to_string(size)),
                    HasSubstr(std::to_string(size - 4096))));
  fs::resize_file(folder / kSecond, 40);
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(kSecond), HasSubstr("header of")));
  fs::resize_file(folder / kSecond, 0);
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(kSecond), HasSubstr("got 0")));
  four_tensors().write(folder.path(), 2);
  fs::resize_file(folder / kSecond, size + 10);
  EXPECT_THAT(error_of(folder.path()), HasSubstr("10 bytes after the last tensor"));
}

// ML-02
TEST(Checkpoint, EveryMissingShardIsListedWithAHint) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 4);
  fs::remove(folder / "model-00001-of-00004.safetensors");
  fs::remove(folder / "model-00003-of-00004.safetensors");
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr("2 files that are not there (incomplete download?)"),
                    HasSubstr("model-00001-of-00004.safetensors"),
                    HasSubstr("model-00003-of-00004.safetensors")));
  fs::remove(folder / kIndex);
  EXPECT_THAT(error_of(folder.path()), HasSubstr("expected 4 shards, got 2"));
}

// ML-04
TEST(Checkpoint, TensorsThatTheIndexDoesNotListAreUsedWithAWarning) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  Json index = *read_json_file(folder / kIndex);
  index["weight_map"].erase("b");
  index["weight_map"].erase("d");
  write_text(folder / kIndex, dump_json(index));
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_NE(checkpoint->find("b"), nullptr);
  EXPECT_THAT(checkpoint->warnings(),
              ElementsAre(HasSubstr("2 tensors of the files are not listed")));
  index["weight_map"]["ghost"] = kFirst;
  write_text(folder / kIndex, dump_json(index));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("tensor 'ghost' is listed"));
}

TEST(Checkpoint, ATensorInTwoShardsIsAnError) {
  const TempFolder folder;
  CheckpointEditor editor = four_tensors();
  editor.write(folder.path(), 2);
  write_text(folder / kSecond, testing::safetensors_bytes(editor.tensors));
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr("tensor 'a' is also in"), HasSubstr(kFirst)));
}

TEST(Checkpoint, AnIndexCannotPointOutsideItsFolder) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  for (const char* file : {"../x.safetensors", "/etc/passwd", "", ".", "..", "a/b.safetensors"}) {
    Json index = *read_json_file(folder / kIndex);
    index["weight_map"]["a"] = file;
    write_text(folder / kIndex, dump_json(index));
    EXPECT_THAT(error_of(folder.path()), HasSubstr("expected the name of a file in this folder"))
        << file;
  }
  for (const char* text : {"", "[]", "{}", "{\"weight_map\": 3}", "{\"weight_map\": {}}", "{"}) {
    write_text(folder / kIndex, text);
    EXPECT_THAT(error_of(folder.path()), HasSubstr(kIndex)) << text;
  }
}

// ML-17
TEST(Checkpoint, FoldersOfLinksIntoABlobStoreAreRead) {
  const TempFolder folder("models--x ü");
  const std::string snapshot = folder / "snapshots/rev 1";
  fs::create_directories(snapshot);
  fs::create_directories(folder / "blobs");
  four_tensors().write(folder / "blobs", 2);
  for (const char* name : {kFirst, kSecond, kIndex, "config.json"}) {
    fs::create_symlink(std::string("../../blobs/") + name, snapshot + "/" + name);
  }
  for (const std::string& path : {snapshot, snapshot + "/", fs::relative(snapshot).string()}) {
    EXPECT_TRUE(Checkpoint::open(path)) << path;
  }
  fs::remove(folder / (std::string("blobs/") + kSecond));
  EXPECT_THAT(error_of(snapshot),
              AllOf(HasSubstr(kSecond),
                    HasSubstr("is a link to ../../blobs/"),
                    HasSubstr("which does not exist")));
}

TEST(Checkpoint, NumberedShardsWithoutAnIndexAreAllRead) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  fs::remove(folder / kIndex);
  write_text(folder / "golden.safetensors", "not ours");
  EXPECT_EQ(Checkpoint::open(folder.path())->tensors().size(), 4U);
}

TEST(Checkpoint, NumbersOfShardsMayHaveAnyNumberOfDigits) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  fs::remove(folder / kIndex);
  fs::rename(folder / "model-00001-of-00002.safetensors",
             folder / "model-00001-of-000002.safetensors");
  fs::rename(folder / "model-00002-of-00002.safetensors",
             folder / "model-00002-of-000002.safetensors");
  write_text(folder / "model-00001-of-00009.safetensors.part", "not ours");
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 4U);
}

TEST(Checkpoint, AFolderWithoutWeightsSaysWhatItLookedFor) {
  const TempFolder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("expected model.safetensors or"));
  fs::create_directories(folder / "model.safetensors");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("expected a regular file"));
}

TEST(Checkpoint, HeadersAloneFallBackToTheNamesOfTheIndex) {
  const TempFolder folder;
  EXPECT_TRUE(Checkpoint::open_headers(folder.path())->names_only());
  four_tensors().write(folder.path(), 2);
  EXPECT_FALSE(Checkpoint::open_headers(folder.path())->names_only());
  fs::remove(folder / kFirst);
  EXPECT_FALSE(Checkpoint::open_headers(folder.path()));  // half a download is an error
  fs::remove(folder / kSecond);
  const Result<Checkpoint> names = Checkpoint::open_headers(folder.path());
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_TRUE(names->names_only());
  EXPECT_EQ(names->tensors().size(), 4U);
}

TEST(Checkpoint, AShardThatIsNoRegularFileIsRefusedAtOnce) {
  const TempFolder folder;
  four_tensors().write(folder.path(), 2);
  fs::remove(folder / kSecond);
  ASSERT_EQ(mkfifo((folder / kSecond).c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(kSecond), HasSubstr("a regular file")));
  fs::remove(folder / kIndex);
  fs::create_symlink(kIndex, folder / kIndex);
  EXPECT_THAT(error_of(folder.path()), AllOf(HasSubstr(kIndex), HasSubstr("cannot open")));
}

TEST(Checkpoint, FusedExpertsAppearAsOneTensorPerExpertAndProjection) {
  const TempFolder folder;
  CheckpointEditor editor = four_tensors();
  std::vector<float> gate_up(2 * 6 * 4), down(2 * 4 * 3);
  std::iota(gate_up.begin(), gate_up.end(), 0.0F);
  std::iota(down.begin(), down.end(), 100.0F);
  editor.tensors["l.mlp.experts.gate_up_proj"] = f32_tensor({2, 6, 4}, gate_up);
  editor.tensors["l.mlp.experts.down_proj"] = f32_tensor({2, 4, 3}, down);
  editor.write(folder.path(), 2);
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 4U + 6U);
  EXPECT_EQ(checkpoint->find("l.mlp.experts.gate_up_proj"), nullptr);
  const auto first_value = [&](const char* name, std::vector<int64_t> shape) {
    const StoredTensor* tensor = checkpoint->find(name);
    EXPECT_EQ(tensor->shape, shape) << name;
    float value = 0.0F;
    std::memcpy(&value, tensor->data, sizeof value);
    return value;
  };
  EXPECT_EQ(first_value("l.mlp.experts.0.gate_proj.weight", {3, 4}), 0.0F);
  EXPECT_EQ(first_value("l.mlp.experts.0.up_proj.weight", {3, 4}), 12.0F);
  EXPECT_EQ(first_value("l.mlp.experts.1.gate_proj.weight", {3, 4}), 24.0F);
  EXPECT_EQ(first_value("l.mlp.experts.1.down_proj.weight", {4, 3}), 112.0F);
  for (const EditedTensor& bad : {f32_tensor({6, 4}, std::vector<float>(24)),
                                  f32_tensor({2, 3, 4}, std::vector<float>(24)),
                                  f32_tensor({0, 6, 4}, {}),
                                  f32_tensor({131072, 2, 1}, std::vector<float>(262144)),
                                  raw_tensor(DType::kU8, {2, 6, 2}, std::string(24, '\0'))}) {
    editor.tensors["l.mlp.experts.gate_up_proj"] = bad;
    editor.write(folder.path(), 2);
    EXPECT_THAT(error_of(folder.path()),
                AllOf(HasSubstr("l.mlp.experts.gate_up_proj"),
                      HasSubstr("expected fused experts of transformers 5"),
                      HasSubstr("save_original_format")));
  }
}

}  // namespace
}  // namespace baton
