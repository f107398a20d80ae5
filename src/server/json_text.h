// Append-only JSON text for answers: the frame of a stream event is fixed text around one
// escaped string, so nothing is allocated per token beyond the output itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baton {

// "text" with quotes. What is not UTF-8 becomes U+FFFD; control characters are escaped.
void append_json_string(std::string& out, std::string_view text);

void append_number(std::string& out, int64_t value);
// Finite numbers in the shortest form that reads back as the same float; -inf and what cannot
// be said become -9999, as vLLM does.
void append_logprob(std::string& out, float value);
// [226,130]
void append_bytes(std::string& out, std::string_view bytes);
void append_ids(std::string& out, std::span<const int32_t> ids);

}  // namespace baton
