#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace baton {
namespace {

size_t previous_char(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80) {
    --begin;
  }
  return begin;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() &&
         is_word_character(decode_utf8(text, previous_char(text, text.size())).value);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(decode_utf8(text, 0).value);
}

size_t without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = previous_char(text, end);
    if (!is_white_space(decode_utf8(text, begin).value)) break;
    end = begin;
  }
  return end;
}

size_t leading_space(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Char c = decode_utf8(text, end);
    if (!is_white_space(c.value)) break;
    end += c.length;
  }
  return end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  nodes_.emplace_back();
  for (size_t i = 0; i < tokens_.size(); ++i) insert(tokens_[i].content, static_cast<int32_t>(i));
}

void AddedTokenMatcher::insert(const std::string& content, int32_t token) {
  if (content.empty()) return;
  begins_[static_cast<uint8_t>(content[0])] = true;
  uint32_t node = 0;
  for (const char byte : content) {
    const std::vector<Edge>& edges = nodes_[node].edges;
    const auto edge =
        std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.byte == byte; });
    if (edge != edges.end()) {
      node = edge->node;
      continue;
    }
    const auto next = static_cast<uint32_t>(nodes_.size());
    nodes_[node].edges.push_back({byte, next});
    nodes_.emplace_back();
    node = next;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t position) const {
  int32_t found = -1;
  uint32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    const std::vector<Edge>& edges = nodes_[node].edges;
    const auto edge =
        std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.byte == text[i]; });
    if (edge == edges.end()) break;
    node = edge->node;
    if (nodes_[node].token >= 0) found = nodes_[node].token;
  }
  return found < 0 ? nullptr : &tokens_[static_cast<size_t>(found)];
}

void AddedTokenMatcher::split(std::string_view text,
                              std::span<const TextRange> untrusted,
                              const SegmentSink& sink) const {
  size_t done = 0;  // everything before has been handed out
  size_t position = 0;
  while (position < text.size()) {
    while (!untrusted.empty() && untrusted.front().end <= position) {
      untrusted = untrusted.subspan(1);
    }
    if (!untrusted.empty() && untrusted.front().begin <= position) {
      position = untrusted.front().end;
      continue;
    }
    const AddedToken* token = nullptr;
    if (begins_[static_cast<uint8_t>(text[position])]) {
      const size_t limit = untrusted.empty() ? text.size() : untrusted.front().begin;
      token = longest_at(text.substr(0, limit), position);
    }
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position + token->content.size();
    position = end;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    // Whitespace that an earlier token swallowed is not taken back.
    if (token->lstrip) begin = std::max(without_trailing_space(text.substr(0, begin)), done);
    if (token->rstrip) end += leading_space(text.substr(end));
    if (done < begin) sink(text.substr(done, begin - done), -1);
    sink(text.substr(begin, end - begin), token->id);
    done = std::max(done, end);
  }
  if (done < text.size()) sink(text.substr(done), -1);
}

}  // namespace baton
