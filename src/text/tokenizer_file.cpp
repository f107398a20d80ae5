#include "text/tokenizer_file.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "text/byte_alphabet.h"

namespace baton {
namespace {

using Node = Json;
using Vocabulary = std::unordered_map<std::string, int32_t>;

// Far above any vocabulary; a larger id is a broken file, not a table to allocate.
constexpr int64_t kMaxTokens = int64_t{1} << 21U;

// Reading is sticky: the first error is kept, and every later step returns at once.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Result<TokenizerFile> read() {
    const Result<Node> read = read_json_file(path_);
    if (!read) return read.error();
    const Node& root = *read;
    if (!root.is_object()) return invalid_argument(path_ + ": expected an object");
    model(member(root, "model"));
    added_tokens(member(root, "added_tokens"));
    merges(member(member(root, "model"), "merges"));
    byte_tokens();
    normalizer(member(root, "normalizer"));
    pre_tokenizer(member(root, "pre_tokenizer"));
    post_processor(member(root, "post_processor"));
    decoder(member(root, "decoder"));
    if (error_) return *error_;
    return std::move(file_);
  }

 private:
  static const Node& member(const Node& node, const char* key) {
    static const Node null;
    if (!node.is_object()) return null;
    const auto found = node.find(key);
    return found == node.end() ? null : *found;
  }

  static std::string text(const Node& node) {
    return node.is_string() ? node.get<std::string>() : std::string();
  }

  bool flag(const Node& node, const char* key) {
    const Node& value = member(node, key);
    if (!value.is_boolean() && !value.is_null()) {
      fail(invalid_argument(std::string(key) + ": expected true or false, got " + shown(value)));
    }
    return value.is_boolean() && value.get<bool>();
  }

  static std::string shown(const Node& node) { return node.dump().substr(0, 40); }

  // A list to walk through; nothing where there is none.
  const Node& list(const Node& node, const char* where) {
    static const Node nothing = Node::array();
    if (node.is_array()) return node;
    if (!node.is_null()) {
      fail(invalid_argument(std::string(where) + ": expected a list, got " + shown(node)));
    }
    return nothing;
  }

  static std::string type_of(const Node& node) { return text(member(node, "type")); }

  void fail(Error error) {
    if (error_) return;
    error.message = path_ + ": " + error.message;
    error_ = std::move(error);
  }

  // False, with an error, if `id` cannot be a token id.
  bool checked_id(const Node& node, const std::string& where, int32_t& id) {
    if (!node.is_number_integer() || node.get<double>() < 0 || node.get<double>() >= kMaxTokens) {
      fail(invalid_argument(where + ": expected a token id below " + std::to_string(kMaxTokens) +
                            ", got " + shown(node)));
      return false;
    }
    id = static_cast<int32_t>(node.get<int64_t>());
    return true;
  }

  void put_token(int32_t id, std::string bytes) {
    const auto index = static_cast<size_t>(id);
    if (index >= file_.tokens.size()) file_.tokens.resize(index + 1);
    file_.tokens[index] = std::move(bytes);
  }

  void model(const Node& node) {
    if (type_of(node) != "BPE") {
      return fail(unsupported("model.type: expected BPE, got '" + type_of(node) + "'"));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text(member(node, key)).empty()) {
        return fail(unsupported(std::string("model.") + key + ": expected none, got '" +
                                text(member(node, key)) + "'"));
      }
    }
    if (flag(node, "byte_fallback")) {
      return fail(unsupported("model.byte_fallback: expected false (byte-level BPE), got true"));
    }
    if (member(node, "dropout").is_number() && member(node, "dropout").get<double>() != 0.0) {
      return fail(
          unsupported("model.dropout: expected none, got " + member(node, "dropout").dump()));
    }
    file_.ignore_merges = flag(node, "ignore_merges");
    const Node& vocab = member(node, "vocab");
    if (!vocab.is_object() || vocab.empty()) {
      return fail(invalid_argument("model.vocab: expected an object of token ids, got " +
                                   std::string(vocab.type_name())));
    }
    ids_.reserve(vocab.size());
    for (const auto& [token, value] : vocab.items()) {
      int32_t id = 0;
      if (!checked_id(value, "model.vocab['" + token + "']", id)) return;
      put_token(id, bytes_of_alphabet(token).value_or(token));
      ids_.emplace(token, id);
    }
  }

  void added_tokens(const Node& tokens) {
    if (error_) return;
    for (const Node& node : list(tokens, "added_tokens")) {
      AddedToken token;
      token.content = text(member(node, "content"));
      if (token.content.empty()) {
        return fail(invalid_argument(
            "added_tokens: expected an object with a text 'content', got " + shown(node)));
      }
      if (!checked_id(member(node, "id"), "added_tokens '" + token.content + "'", token.id)) return;
      token.special = flag(node, "special");
      token.normalized = flag(node, "normalized");
      token.lstrip = flag(node, "lstrip");
      token.rstrip = flag(node, "rstrip");
      token.single_word = flag(node, "single_word");
      if (error_) return;
      put_token(token.id, token.content);
      added_ids_.emplace(token.content, token.id);
      file_.added_tokens.push_back(std::move(token));
    }
    for (const auto& [token, id] : ids_) {
      if (!is_added(id)) file_.vocabulary.push_back(id);
    }
    std::sort(file_.vocabulary.begin(), file_.vocabulary.end());
  }

  bool is_added(int32_t id) const {
    const auto found = added_ids_.find(file_.tokens[static_cast<size_t>(id)]);
    return found != added_ids_.end() && found->second == id;
  }

  // Entries are "left right" or ["left", "right"]; left + right names the result.
  void merges(const Node& pairs) {
    if (error_) return;
    if (!pairs.is_array()) {
      return fail(
          invalid_argument("model.merges: expected a list, got " + std::string(pairs.type_name())));
    }
    file_.merges.reserve(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::string left;
      std::string right;
      if (pairs[i].is_string()) {
        const std::string both = pairs[i].get<std::string>();
        const size_t space = both.find(' ');
        if (space != std::string::npos) {
          left = both.substr(0, space);
          right = both.substr(space + 1);
        }
      } else if (pairs[i].is_array() && pairs[i].size() == 2) {
        left = text(pairs[i][0]);
        right = text(pairs[i][1]);
      }
      if (!merge(left, right)) {
        return fail(invalid_argument("model.merges[" + std::to_string(i) +
                                     "]: expected two tokens whose join is in model.vocab, got " +
                                     pairs[i].dump().substr(0, 80)));
      }
    }
  }

  bool merge(const std::string& left, const std::string& right) {
    const auto l = ids_.find(left);
    const auto r = ids_.find(right);
    const auto result = ids_.find(left + right);
    if (l == ids_.end() || r == ids_.end() || result == ids_.end()) return false;
    file_.merges.push_back({l->second, r->second, result->second});
    return true;
  }

  void byte_tokens() {
    if (error_) return;
    for (size_t byte = 0; byte < 256; ++byte) {
      const std::string token = alphabet_of_bytes(std::string(1, static_cast<char>(byte)));
      const auto found = ids_.find(token);
      if (found == ids_.end()) {
        return fail(
            unsupported("model.vocab: expected a token for each of the 256 bytes "
                        "(byte-level BPE), got none for byte " +
                        std::to_string(byte)));
      }
      file_.byte_tokens[byte] = found->second;
    }
  }

  void normalizer(const Node& node) {
    if (error_ || node.is_null()) return;
    const std::string type = type_of(node);
    if (type == "Sequence") {
      for (const Node& step : list(member(node, "normalizers"), "normalizers")) normalizer(step);
    } else if (type == "NFC") {
      file_.normal_forms.push_back(NormalForm::kNfc);
    } else if (type == "NFD") {
      file_.normal_forms.push_back(NormalForm::kNfd);
    } else if (type == "NFKC") {
      file_.normal_forms.push_back(NormalForm::kNfkc);
    } else if (type == "NFKD") {
      file_.normal_forms.push_back(NormalForm::kNfkd);
    } else {
      fail(unsupported("normalizer.type: expected NFC, NFD, NFKC, NFKD or Sequence, got '" + type +
                       "'"));
    }
  }

  void pre_tokenizer(const Node& node) {
    if (error_ || node.is_null()) return;
    const std::string type = type_of(node);
    if (type == "Sequence") {
      for (const Node& step : list(member(node, "pretokenizers"), "pretokenizers")) {
        pre_tokenizer(step);
      }
    } else if (type == "Split") {
      split(node);
    } else if (type == "Digits") {
      add_split(flag(node, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)", false, false, false);
    } else if (type == "ByteLevel") {
      if (flag(node, "add_prefix_space")) {
        return fail(unsupported("pre_tokenizer ByteLevel.add_prefix_space: expected false"));
      }
      if (member(node, "use_regex") != Node(false)) add_split(kGpt2Pattern, false, false, false);
    } else {
      fail(unsupported("pre_tokenizer.type: expected Split, Digits, ByteLevel or Sequence, got '" +
                       type + "'"));
    }
  }

  void split(const Node& node) {
    const std::string behavior = text(member(node, "behavior"));
    if (behavior != "Isolated" && behavior != "Removed") {
      return fail(unsupported("pre_tokenizer Split.behavior: expected Isolated or Removed, got '" +
                              behavior + "'"));
    }
    const Node& pattern = member(node, "pattern");
    const bool literal = member(pattern, "Regex").is_null();
    const std::string expression = text(member(pattern, literal ? "String" : "Regex"));
    if (expression.empty()) {
      return fail(invalid_argument("pre_tokenizer Split.pattern: expected Regex or String, got " +
                                   pattern.dump().substr(0, 80)));
    }
    add_split(expression, literal, flag(node, "invert"), behavior == "Removed");
  }

  void add_split(const std::string& expression, bool literal, bool invert, bool drop) {
    Result<SplitPattern> pattern = SplitPattern::compile(expression, literal);
    if (!pattern) {
      Error error = pattern.error();
      error.message = "pre_tokenizer " + error.message;
      return fail(std::move(error));
    }
    file_.splits.push_back({std::move(*pattern), invert, drop});
  }

  void post_processor(const Node& node) {
    if (error_ || node.is_null()) return;
    const std::string type = type_of(node);
    if (type == "Sequence") {
      for (const Node& step : list(member(node, "processors"), "processors")) post_processor(step);
    } else if (type == "TemplateProcessing") {
      template_processing(node);
    } else if (type != "ByteLevel") {  // ByteLevel only adjusts offsets
      fail(unsupported(
          "post_processor.type: expected TemplateProcessing, ByteLevel or Sequence, got '" + type +
          "'"));
    }
  }

  void template_processing(const Node& node) {
    bool after_text = false;
    for (const Node& part : list(member(node, "single"), "post_processor single")) {
      if (!member(part, "Sequence").is_null()) {
        after_text = true;
        continue;
      }
      const std::string name = text(member(member(part, "SpecialToken"), "id"));
      const Node& ids = member(member(member(node, "special_tokens"), name.c_str()), "ids");
      const std::string where = "post_processor special token '" + name + "'";
      if (!ids.is_array() || ids.empty()) {
        return fail(invalid_argument(where + ": expected a list of ids, got " + ids.dump()));
      }
      for (const Node& value : ids) {
        int32_t id = 0;
        if (!checked_id(value, where, id)) return;
        (after_text ? file_.suffix : file_.prefix).push_back(id);
      }
    }
  }

  void decoder(const Node& node) {
    if (error_) return;
    const std::string type = type_of(node);
    const Node& steps = member(node, "decoders");
    const bool only_step = type == "Sequence" && steps.is_array() && steps.size() == 1;
    if ((only_step ? type_of(steps[0]) : type) != "ByteLevel") {
      fail(unsupported("decoder.type: expected ByteLevel, got '" + type + "'"));
    }
  }

  std::string path_;
  std::optional<Error> error_;
  TokenizerFile file_;
  Vocabulary ids_;        // by the name in model.vocab
  Vocabulary added_ids_;  // by content
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(const std::string& path) {
  return Reader(path).read();
}

}  // namespace baton
