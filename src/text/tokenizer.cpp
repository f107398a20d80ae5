#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/utf8.h"

namespace baton {
namespace {

std::vector<AddedToken> looked_for(const TokenizerFile& file, bool in_normalized_text) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : file.added_tokens) {
    // Without a normalizer both texts are the same, and one pass finds all of them.
    const bool normalized = token.normalized && !file.normal_forms.empty();
    if (normalized != in_normalized_text) continue;
    if (normalized) {
      for (const NormalForm form : file.normal_forms)
        token.content = normalize(token.content, form);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Merges into a special token are left out: ordinary text never becomes a control token.
std::vector<BytePairEncoder::Merge> safe_merges(const TokenizerFile& file) {
  std::vector<bool> special(file.tokens.size());
  for (const AddedToken& token : file.added_tokens) {
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  }
  std::vector<BytePairEncoder::Merge> merges = file.merges;
  std::erase_if(merges, [&](const BytePairEncoder::Merge& merge) {
    return special[static_cast<size_t>(merge.result)];
  });
  return merges;
}

std::vector<int32_t> added_before_vocabulary(const TokenizerFile& file) {
  std::vector<int32_t> ids;
  for (const AddedToken& token : file.added_tokens) ids.push_back(token.id);
  ids.insert(ids.end(), file.vocabulary.begin(), file.vocabulary.end());
  return ids;
}

// Remembers where in the output the ids of recent pieces are: source code repeats its words.
class RecentPieces {
 public:
  struct Entry {
    std::string_view piece;
    size_t begin = 0;  // of its ids in the output
    size_t count = 0;
    uint64_t text = 0;  // the number of the text that `piece` is a view of
  };

  // Forgets everything: the views are about to dangle.
  void next_text() { ++text_; }

  // Where `piece` is, or may be put.
  Entry& slot(std::string_view piece) {
    if (entries_.empty()) entries_.resize(kEntries);
    return entries_[hash_piece(piece) % kEntries];
  }
  bool holds(const Entry& entry, std::string_view piece) const {
    return entry.text == text_ && entry.piece == piece;
  }
  void put(Entry& entry, std::string_view piece, size_t begin, size_t count) {
    entry = {piece, begin, count, text_};
  }

 private:
  static constexpr size_t kEntries = 2048;
  std::vector<Entry> entries_;
  uint64_t text_ = 1;
};

// tokenizer_config.json's add_bos_token, the Llama-style way to ask for a prefix.
Status read_bos_prefix(const std::string& path, TokenizerFile& file) {
  if (!file.prefix.empty()) return {};
  const Result<Json> config = read_json_file(path);
  if (!config && config.error().code == ErrorCode::kNotFound) return {};
  if (!config) return config.error();
  if (!config->is_object() || config->value("add_bos_token", Json()) != Json(true)) return {};
  Json bos = config->value("bos_token", Json());
  if (bos.is_object()) bos = bos.value("content", Json());
  for (const AddedToken& token : file.added_tokens) {
    if (bos == Json(token.content)) {
      file.prefix.push_back(token.id);
      return {};
    }
  }
  return invalid_argument(path + ": add_bos_token is true, but bos_token " + bos.dump() +
                          " is not an added token of tokenizer.json");
}

}  // namespace

// One call's work: the output and what must not be shared between threads.
class Tokenizer::Encoding {
 public:
  explicit Encoding(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void recognise(std::string_view text, std::span<const TextRange> untrusted) {
    tokenizer_.raw_matcher_.split(text, untrusted, [&](std::string_view segment, int32_t id) {
      if (id >= 0) {
        ids_.push_back(id);
        return;
      }
      const auto begin = static_cast<size_t>(segment.data() - text.data());
      const auto touches = [&](const TextRange& range) {
        return range.begin < begin + segment.size() && begin < range.end;
      };
      const bool is_trusted = std::none_of(untrusted.begin(), untrusted.end(), touches);
      normalise(segment, /*recognise_tokens=*/is_trusted);
    });
  }

  void plain(std::string_view text) { normalise(text, /*recognise_tokens=*/false); }

  std::vector<int32_t> take() { return std::move(ids_); }

 private:
  void normalise(std::string_view text, bool recognise_tokens) {
    if (tokenizer_.file_.normal_forms.empty()) return encode_runs(text);
    const std::string normalized = normalized_valid_runs(text);
    if (!recognise_tokens || tokenizer_.normalized_matcher_.empty()) {
      return encode_runs(normalized);
    }
    tokenizer_.normalized_matcher_.split(normalized, {}, [&](std::string_view segment, int32_t id) {
      if (id >= 0) {
        ids_.push_back(id);
      } else {
        encode_runs(segment);
      }
    });
  }

  std::string normalized_valid_runs(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const size_t valid = valid_utf8_prefix(text);
      std::string run(text.substr(0, valid));
      for (const NormalForm form : tokenizer_.file_.normal_forms) run = normalize(run, form);
      out += run;
      text.remove_prefix(valid);
      if (text.empty()) break;
      const size_t broken = decode_utf8(text, 0).length;
      out.append(text.substr(0, broken));
      text.remove_prefix(broken);
    }
    return out;
  }

  // Broken bytes are pieces of their own.
  void encode_runs(std::string_view text) {
    recent_.next_text();
    while (!text.empty()) {
      const size_t valid = valid_utf8_prefix(text);
      tokenizer_.pre_tokenizer_.split(
          text.substr(0, valid), scratch_, [&](std::string_view piece) { encode_piece(piece); });
      text.remove_prefix(valid);
      if (text.empty()) break;
      const size_t broken = decode_utf8(text, 0).length;
      encode_piece(text.substr(0, broken));
      text.remove_prefix(broken);
    }
  }

  void encode_piece(std::string_view piece) {
    if (const int32_t id = tokenizer_.encoder_.find_whole(piece); id >= 0) {
      ids_.push_back(id);
      return;
    }
    RecentPieces::Entry& recent = recent_.slot(piece);
    if (recent_.holds(recent, piece)) {
      for (size_t i = 0; i < recent.count; ++i) ids_.push_back(ids_[recent.begin + i]);
      return;
    }
    const size_t begin = ids_.size();
    tokenizer_.encoder_.merge(piece, ids_);
    recent_.put(recent, piece, begin, ids_.size() - begin);
  }

  const Tokenizer& tokenizer_;
  SplitPattern::Scratch scratch_;
  RecentPieces recent_;
  std::vector<int32_t> ids_;
};

Tokenizer::Tokenizer(TokenizerFile file)
    : file_(std::move(file)),
      traits_(file_.tokens.size(), Trait::kOrdinary),
      raw_matcher_(looked_for(file_, /*in_normalized_text=*/false)),
      normalized_matcher_(looked_for(file_, /*in_normalized_text=*/true)),
      pre_tokenizer_(std::move(file_.splits)),
      encoder_(file_.tokens,
               safe_merges(file_),
               file_.byte_tokens,
               file_.vocabulary,
               file_.ignore_merges),
      ids_(file_.tokens, added_before_vocabulary(file_)) {
  for (const AddedToken& token : file_.added_tokens) {
    traits_[static_cast<size_t>(token.id)] = token.special ? Trait::kSpecial : Trait::kAdded;
  }
  file_.merges = {};
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load_file(const std::string& tokenizer_json_path) {
  Result<TokenizerFile> file = read_tokenizer_file(tokenizer_json_path);
  if (!file) return file.error();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(*file)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  Result<TokenizerFile> file = read_tokenizer_file(model_dir + "/tokenizer.json");
  if (!file) return file.error();
  const Status status = read_bos_prefix(model_dir + "/tokenizer_config.json", *file);
  if (!status) return status.error();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(*file)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text,
                                       SpecialTokens mode,
                                       Prefix prefix) const {
  Encoding encoding(*this);
  if (mode == SpecialTokens::kRecognise) {
    encoding.recognise(text, {});
  } else {
    encoding.plain(text);
  }
  std::vector<int32_t> ids = encoding.take();
  if (prefix == Prefix::kNone) return ids;
  const std::vector<int32_t>& front = file_.prefix;
  const bool has_it =
      ids.size() >= front.size() && std::equal(front.begin(), front.end(), ids.begin());
  if (!has_it) ids.insert(ids.begin(), front.begin(), front.end());
  return ids;
}

std::vector<int32_t> Tokenizer::encode_marked(std::string_view text,
                                              std::span<const TextRange> untrusted) const {
  Encoding encoding(*this);
  encoding.recognise(text, untrusted);
  return encoding.take();
}

const std::string& Tokenizer::token_bytes(int32_t id) const {
  static const std::string unused;
  const auto index = static_cast<size_t>(id);
  return id >= 0 && index < file_.tokens.size() ? file_.tokens[index] : unused;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  }
  return replace_invalid_utf8(bytes);
}

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  const int32_t id = ids_.find(content);
  return id < 0 ? std::nullopt : std::optional(id);
}

Tokenizer::Trait Tokenizer::traits(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return id >= 0 && index < traits_.size() ? traits_[index] : Trait::kOrdinary;
}

}  // namespace baton
