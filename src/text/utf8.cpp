#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace baton {
namespace {

// The bytes that may follow a lead byte first; the later ones are always 80..BF.
struct LeadByte {
  size_t length = 0;  // of the whole character; 0 = not a lead byte
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xBF;
};

LeadByte classify(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Char::Kind::kValid, lead, 1};
  const LeadByte kind = classify(lead);
  if (kind.length == 0) return {Utf8Char::Kind::kInvalid, kReplacementCharacter, 1};
  char32_t value = lead & (0x7FU >> kind.length);
  const size_t available = std::min(kind.length, text.size() - position);
  for (size_t i = 1; i < available; ++i) {
    const uint8_t low = i == 1 ? kind.second_low : 0x80;
    const uint8_t high = i == 1 ? kind.second_high : 0xBF;
    if (byte(i) < low || byte(i) > high) {
      return {Utf8Char::Kind::kInvalid, kReplacementCharacter, i};
    }
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  if (available < kind.length) {
    return {Utf8Char::Kind::kIncomplete, kReplacementCharacter, available};
  }
  return {Utf8Char::Kind::kValid, value, kind.length};
}

size_t valid_utf8_prefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080ULL;
  size_t position = 0;
  while (position < text.size()) {
    uint64_t word = 0;
    if (text.size() - position >= sizeof word) {
      std::memcpy(&word, text.data() + position, sizeof word);
      if ((word & kHighBits) == 0) {
        position += sizeof word;
        continue;
      }
    }
    const Utf8Char c = decode_utf8(text, position);
    if (c.kind != Utf8Char::Kind::kValid) break;
    position += c.length;
  }
  return position;
}

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t position = text.size() - back;
    const auto byte = static_cast<uint8_t>(text[position]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation: the lead byte is further left
    const Utf8Char c = decode_utf8(text, position);
    return c.kind == Utf8Char::Kind::kIncomplete ? back : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t value) {
  const auto tail = [&](unsigned shift) {
    out.push_back(static_cast<char>(0x80U | ((value >> shift) & 0x3FU)));
  };
  if (value < 0x80) {
    out.push_back(static_cast<char>(value));
  } else if (value < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (value >> 6U)));
    tail(0);
  } else if (value < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (value >> 12U)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | (value >> 18U)));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    out.append(kReplacementUtf8);
    text.remove_prefix(decode_utf8(text, 0).length);
  }
  return out;
}

}  // namespace baton
