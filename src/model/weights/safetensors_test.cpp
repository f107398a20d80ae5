#include "model/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model/testing/checkpoint_editor.h"

namespace baton {
namespace {

using testing::f32_tensor;
using ::testing::HasSubstr;
using testing::safetensors_bytes;
using testing::with_header;

Result<std::vector<TensorEntry>> parse(const std::string& file) {
  return parse_safetensors({reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                           "a.safetensors");
}

std::string error_of(const std::string& file) {
  const auto result = parse(file);
  return result ? "no error" : result.error().message;
}

// One F32 tensor of two values at the given offsets.
std::string entry(const std::string& name, int64_t begin, int64_t end) {
  return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string length_bytes(uint64_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

TEST(Safetensors, AWellFormedFileIsReadInTheOrderOfItsBytes) {
  const std::string file = safetensors_bytes({{"b", f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6})},
                                              {"a", f32_tensor({}, {7})},
                                              {"empty", f32_tensor({0, 4}, {})}});
  const auto entries = parse(file);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_TRUE((*entries)[0].shape.empty());
  EXPECT_EQ((*entries)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*entries)[1].bytes(), 24);
  EXPECT_EQ((*entries)[2].bytes(), 0);
}

TEST(Safetensors, EveryStoredTypeIsKnown) {
  for (const char* name : {"F64",
                           "F32",
                           "F16",
                           "BF16",
                           "F8_E4M3",
                           "F8_E5M2",
                           "F8_E8M0",
                           "U8",
                           "I8",
                           "I16",
                           "I32",
                           "I64",
                           "BOOL"}) {
    const std::string header =
        std::string(R"({"x":{"dtype":")") + name + R"(","shape":[0],"data_offsets":[0,0]}})";
    EXPECT_TRUE(parse(with_header(header, ""))) << name;
  }
  EXPECT_THAT(error_of(with_header(R"({"x":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}})", "")),
              HasSubstr("tensor 'x': unknown dtype 'F4'"));
}

// ML-11
TEST(Safetensors, BrokenHeaderLengthsAreRefusedWithoutBelievingThem) {
  EXPECT_THAT(error_of(""), HasSubstr("expected at least 8 bytes of safetensors, got 0"));
  EXPECT_THAT(error_of("x"), HasSubstr("got 1"));
  EXPECT_THAT(error_of(length_bytes(0) + "{}"), HasSubstr("header length is 0"));
  EXPECT_THAT(error_of(length_bytes((uint64_t{1} << 63) - 1) + "{}"), HasSubstr("above the limit"));
  EXPECT_THAT(error_of(length_bytes(~uint64_t{0}) + "{}"), HasSubstr("above the limit"));
  EXPECT_THAT(error_of(length_bytes(200'000'000) + "{}"), HasSubstr("above the limit"));
  EXPECT_THAT(error_of(length_bytes(1000) + "{}"), HasSubstr("ends outside the file of 10 bytes"));
}

TEST(Safetensors, AGitLfsPointerIsRecognisedByName) {
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"),
              HasSubstr("is a Git LFS pointer"));
}

TEST(Safetensors, HeadersThatAreNotTheExpectedJsonAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"hello", "does not begin with '{'"},
      {"[]", "does not begin with '{'"},
      {"{\"a\":", "not valid JSON"},
      {"{\"a\":1}", "unexpected number"},
      {"{\"a\":\"b\"}", "unexpected string"},
      {"{\"a\":null}", "unexpected null"},
      {"{\"a\":{}}", "expected dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "expected dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":"x"}})", "unknown field"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "negative number in shape"},
      {R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", "fractional number"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "expected two data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "unexpected list"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})",
       "fractional number"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "appears twice"},
      {R"({"__metadata__":{"a":{"b":"c"}}})", "expected at most one object"},
      {"{\"a\xff\":{}}", "not valid JSON"},
  };
  for (const auto& [header, message] : cases) {
    EXPECT_THAT(error_of(with_header(header, std::string(8, '\0'))), HasSubstr(message)) << header;
  }
}

TEST(Safetensors, OffsetsMustTileTheFileExactly) {
  const std::string data(16, '\0');
  EXPECT_TRUE(parse(with_header("{" + entry("a", 0, 8) + "," + entry("b", 8, 16) + "}", data)));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 0, 8) + "," + entry("a", 8, 16) + "}", data)),
              HasSubstr("tensor 'a': the name appears twice"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 0, 8) + "," + entry("b", 4, 12) + "}", data)),
              HasSubstr("tensor 'b' overlaps tensor 'a' by 4 bytes"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 0, 8) + "," + entry("b", 0, 8) + "}",
                                   std::string(8, '\0'))),
              HasSubstr("overlaps"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 8, 16) + "}", data)),
              HasSubstr("hole of 8 bytes before tensor 'a'"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 8, 0) + "}", data)), HasSubstr("reversed"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 0, 12) + "}", data)),
              HasSubstr("hold 12 bytes, but F32 [2] needs 8"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 16, 24) + "}", data)),
              HasSubstr("end outside the file"));
  EXPECT_THAT(error_of(with_header("{" + entry("a", 0, 8) + "}", data)),
              HasSubstr("8 bytes after the last tensor"));
  EXPECT_THAT(
      error_of(with_header(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296,4294967296],)"
                           R"("data_offsets":[0,8]}})",
                           data)),
      HasSubstr("more than can be addressed"));
}

TEST(Safetensors, DeepNestingIsRefused) {
  std::string header = "{\"a\":";
  for (int i = 0; i < 100000; ++i) header += "[";
  EXPECT_THAT(error_of(with_header(header, "")), HasSubstr("tensor 'a'"));
}

// Any bytes give entries that lie inside the file, or one line.
TEST(Safetensors, RandomMutationsNeverCrashAndNeverPointOutsideTheFile) {
  const std::string sound = safetensors_bytes({{"model.a.weight", f32_tensor({2, 2}, {1, 2, 3, 4})},
                                               {"model.b.weight", f32_tensor({3}, {1, 2, 3})}});
  std::mt19937 random(11);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string alphabet = "{}[]\",:0123456789-.eE truefalsnF8_BUI\\\xc3\xff";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = sound;
    for (size_t edit = 0; edit <= pick(4); ++edit) {
      const size_t at = pick(file.size());
      switch (pick(5)) {
        case 0:
          file[at] = static_cast<char>(random() & 0xff);
          break;
        case 1:
          file[at] = alphabet[pick(alphabet.size())];
          break;
        case 2:
          file.erase(at, 1 + pick(8));
          break;
        case 3:
          file.insert(at, 1, alphabet[pick(alphabet.size())]);
          break;
        default:
          file.resize(at + 1);
          break;
      }
      if (file.empty()) file = "x";
    }
    const auto entries = parse(file);
    if (!entries) {
      ASSERT_EQ(entries.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    for (const TensorEntry& tensor : *entries) {
      ASSERT_GE(tensor.begin, 8);
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(tensor.end, static_cast<int64_t>(file.size()));
    }
  }
  EXPECT_GT(accepted, 100);  // edits of values and names keep a file sound
}

}  // namespace
}  // namespace baton
