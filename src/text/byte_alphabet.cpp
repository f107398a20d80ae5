#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace baton {
namespace {

constexpr size_t kAlphabetEnd = 0x144;  // 256 bytes, 68 of them moved to U+0100..U+0143

constexpr bool stands_for_itself(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kAlphabetEnd> byte{};  // -1 = not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte) byte = -1;
  char32_t next = 0x100;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char32_t c = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.character[byte] = c;
    alphabet.byte[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size();) {
    const Utf8Char c = decode_utf8(token, i);
    if (c.kind != Utf8Char::Kind::kValid || c.value >= kAlphabetEnd) return std::nullopt;
    const int16_t byte = kAlphabet.byte[c.value];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    i += c.length;
  }
  return bytes;
}

std::string alphabet_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(token, kAlphabet.character[static_cast<uint8_t>(byte)]);
  return token;
}

}  // namespace baton
