#include "scheduler/admission.h"

#include <cmath>
#include <sstream>
#include <string>

namespace baton {
namespace {

template <typename T>
Error unexpected(const char* field, const char* expected, const T& got) {
  std::ostringstream out;
  out << field << ": expected " << expected << ", got " << got;
  return invalid_argument(out.str());
}

Status check_prompt(const Request& request, const AdmissionLimits& limits) {
  if (request.prompt.empty())
    return invalid_argument("prompt: expected at least one token, got none");
  const auto length = request.prompt.size();
  if (length >= static_cast<size_t>(limits.max_model_len)) {
    return invalid_argument("prompt: " + std::to_string(length) +
                            " tokens leave no room for output in the context of " +
                            std::to_string(limits.max_model_len) + " tokens (max_model_len)");
  }
  for (size_t i = 0; i < length; ++i) {
    const int32_t token = request.prompt[i];
    if (token < 0 || token >= limits.vocab_size) {
      return invalid_argument("prompt: token " + std::to_string(token) + " at position " +
                              std::to_string(i) + " is outside the vocabulary of " +
                              std::to_string(limits.vocab_size));
    }
  }
  return {};
}

Status check_token_ids(const SamplingParams& sampling, int64_t vocab_size) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return unexpected("logit_bias", "token ids inside the vocabulary", token);
    }
    if (!std::isfinite(bias)) return unexpected("logit_bias", "finite values", bias);
  }
  for (const int32_t token : sampling.stop_token_ids) {
    if (token < 0 || token >= vocab_size) {
      return unexpected("stop_token_ids", "token ids inside the vocabulary", token);
    }
  }
  return {};
}

Status check_sampling(const SamplingParams& s) {
  if (!(s.temperature >= 0.0F) || std::isinf(s.temperature)) {
    return unexpected("temperature", "a finite number >= 0", s.temperature);
  }
  if (!(s.top_p > 0.0F && s.top_p <= 1.0F)) return unexpected("top_p", "(0, 1]", s.top_p);
  if (!(s.min_p >= 0.0F && s.min_p <= 1.0F)) return unexpected("min_p", "[0, 1]", s.min_p);
  if (!(s.presence_penalty >= -2.0F && s.presence_penalty <= 2.0F)) {
    return unexpected("presence_penalty", "[-2, 2]", s.presence_penalty);
  }
  if (!(s.frequency_penalty >= -2.0F && s.frequency_penalty <= 2.0F)) {
    return unexpected("frequency_penalty", "[-2, 2]", s.frequency_penalty);
  }
  if (!(s.repetition_penalty > 0.0F) || std::isinf(s.repetition_penalty)) {
    return unexpected("repetition_penalty", "a finite number > 0", s.repetition_penalty);
  }
  if (s.max_tokens < 0) return unexpected("max_tokens", ">= 0", s.max_tokens);
  if (s.min_tokens < 0 || s.min_tokens > s.max_tokens) {
    return unexpected("min_tokens", "0..max_tokens", s.min_tokens);
  }
  return {};
}

}  // namespace

Status check_request(const Request& request, const AdmissionLimits& limits) {
  if (!request.deliver) return invalid_argument("deliver: expected a function, got none");
  if (Status status = check_prompt(request, limits); !status) return status;
  if (Status status = check_sampling(request.sampling); !status) return status;
  return check_token_ids(request.sampling, limits.vocab_size);
}

}  // namespace baton
