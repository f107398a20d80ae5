// Byte-level BPE from a model folder's tokenizer.json: text to token ids and back. Immutable
// after load, so one instance serves every HTTP thread.
//
// Order of work (Hugging Face tokenizers): added tokens on the raw text, normalisation, added
// tokens that want normalised text, pre-tokenisation, byte pair encoding. Bytes that are not
// valid UTF-8 are encoded as they are: decode(encode(x)) == x for every x, up to normalisation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/byte_pair_encoder.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_file.h"

namespace baton {

// Whether the text of an added token becomes that token. Text that a user typed must not
// (kAsText), or anyone could forge a turn; the template's own text must (kRecognise).
enum class SpecialTokens { kRecognise, kAsText };

// The prefix that the tokenizer asks for (bos, [gMASK]<sop>): a rendered chat template already
// has it, a bare prompt does not.
enum class Prefix { kNone, kAdd };

class Tokenizer {
 public:
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Reads `model_dir`/tokenizer.json, and add_bos_token of tokenizer_config.json if that exists.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& model_dir);
  static Result<std::unique_ptr<Tokenizer>> load_file(const std::string& tokenizer_json_path);

  // Prefix::kAdd adds nothing if the ids already begin with the prefix.
  std::vector<int32_t> encode(std::string_view text,
                              SpecialTokens mode,
                              Prefix prefix = Prefix::kNone) const;

  std::vector<int32_t> encode_plain(std::string_view text) const {
    return encode(text, SpecialTokens::kAsText);
  }

  // Recognises added tokens in what the template wrote, not in the `untrusted` ranges of `text`
  // (chat_prompt.h). Apart from that, ranges make no difference: pieces and merges cross them, so
  // harmless text gets the ids that encode gives.
  // Added tokens that want normalised text are not looked for between two tokens if any of that
  // text is untrusted; no known chat model has such control tokens.
  std::vector<int32_t> encode_marked(std::string_view text,
                                     std::span<const TextRange> untrusted) const;

  // The raw bytes that a token stands for: half a character is possible. Empty for ids that the
  // tokenizer does not use; models have more logits than that, so any id >= 0 may be asked.
  const std::string& token_bytes(int32_t id) const;

  // All bytes in a row; what is not UTF-8 becomes U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // The id whose whole content this is; added tokens first.
  std::optional<int32_t> token_id(std::string_view content) const;

  // One more than the largest id in use.
  int32_t vocab_size() const { return static_cast<int32_t>(file_.tokens.size()); }
  bool is_special(int32_t id) const { return traits(id) == Trait::kSpecial; }
  bool is_added(int32_t id) const { return traits(id) != Trait::kOrdinary; }
  std::span<const AddedToken> added_tokens() const { return file_.added_tokens; }
  std::span<const int32_t> prefix() const { return file_.prefix; }
  std::span<const int32_t> suffix() const { return file_.suffix; }

 private:
  enum class Trait : uint8_t { kOrdinary, kAdded, kSpecial };
  class Encoding;

  explicit Tokenizer(TokenizerFile file);
  Trait traits(int32_t id) const;

  TokenizerFile file_;  // its splits have moved to pre_tokenizer_
  std::vector<Trait> traits_;
  AddedTokenMatcher raw_matcher_;
  AddedTokenMatcher normalized_matcher_;
  PreTokenizer pre_tokenizer_;
  BytePairEncoder encoder_;
  TokenTable ids_;
};

}  // namespace baton
