// tokenizer.json (Hugging Face tokenizers) as data: read, checked, and reduced to what a
// byte-level BPE needs. Anything else that the file asks for is an error that names it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/byte_pair_encoder.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace baton {

struct TokenizerFile {
  std::vector<std::string> tokens;  // raw bytes by id, added tokens included; "" = unused id
  std::vector<int32_t> vocabulary;  // ids of model.vocab that are not added tokens
  std::vector<BytePairEncoder::Merge> merges;  // in order of rank
  std::array<int32_t, 256> byte_tokens{};      // id of each single byte
  bool ignore_merges = false;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalForm> normal_forms;
  std::vector<PreTokenizer::Split> splits;
  std::vector<int32_t> prefix;  // what the post_processor puts before a text
  std::vector<int32_t> suffix;  // ... and after it
};

// Errors start with the path and name the field.
Result<TokenizerFile> read_tokenizer_file(const std::string& path);

}  // namespace baton
