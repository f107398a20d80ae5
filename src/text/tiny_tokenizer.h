// For tests: a tokenizer.json of 256 byte tokens, a few merges and the tokens of a GLM-like
// chat format, which tests change before they load it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace baton {

// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "baton_text_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

inline Json added_token_json(int32_t id, const std::string& content, bool special) {
  return {{"id", id},
          {"content", content},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", special}};
}

// Ids: byte b is b; merges follow from 256; added tokens from 1000.
inline Json tiny_tokenizer_json() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[alphabet_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  Json merges = Json::array();
  int32_t next = 256;
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"h", "e"},
                                                        {"l", "l"},
                                                        {"he", "ll"},
                                                        {"hell", "o"},
                                                        {"a", "a"},
                                                        {"aa", "aa"},
                                                        {" ", "w"},
                                                        {"|", ">"},
                                                        {"<", "|"},
                                                        {"\xE4", "\xB8"}}) {
    const std::string l = alphabet_of_bytes(left);
    const std::string r = alphabet_of_bytes(right);
    merges.push_back(l + " " + r);
    vocab[l + r] = next++;
  }
  Json added = Json::array();
  int32_t id = 1000;
  for (const char* token : {"[gMASK]",
                            "<sop>",
                            "<|endoftext|>",
                            "<|system|>",
                            "<|user|>",
                            "<|assistant|>",
                            "<|observation|>"}) {
    added.push_back(added_token_json(id++, token, true));
  }
  for (const char* token : {"<think>",
                            "</think>",
                            "<tool_call>",
                            "</tool_call>",
                            "<tool_response>",
                            "</tool_response>"}) {
    added.push_back(added_token_json(id++, token, false));
  }
  const Json prefix = Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[gMASK]"}}, {"SpecialToken": {"id": "<sop>"}},
               {"Sequence": {"id": "A"}}],
    "special_tokens": {"[gMASK]": {"ids": [1000]}, "<sop>": {"ids": [1001]}}})");
  const Json pre_tokenizer = Json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},
     "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  return {
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer},
      {"post_processor", prefix},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"ignore_merges", false}, {"vocab", vocab}, {"merges", merges}}}};
}

inline Result<std::unique_ptr<Tokenizer>> load_tokenizer(const Json& file) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  return Tokenizer::load(folder.path());
}

inline std::unique_ptr<Tokenizer> tiny_tokenizer(const Json& file = tiny_tokenizer_json()) {
  auto tokenizer = load_tokenizer(file);
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

}  // namespace baton
