// The byte-level alphabet of GPT-2 (encoder.py, bytes_to_unicode): each of the 256 bytes has a
// printable character by which vocabularies and merges name it. Printable bytes stand for
// themselves, the others for U+0100 and up. Only files use it; in memory tokens are raw bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton {

// The raw bytes that `token` names; nothing if a character is not in the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view token);

// The reverse, for tests and error messages.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace baton
