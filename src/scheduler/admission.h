// Which requests can be served at all: checked in submit(), on the caller's thread, before a
// request costs the engine anything. Pure functions.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "scheduler/request.h"

namespace baton {

struct AdmissionLimits {
  int32_t max_model_len = 0;  // prompt and output together
  int64_t vocab_size = 0;
};

// kInvalidArgument with the field, what was expected and what came.
Status check_request(const Request& request, const AdmissionLimits& limits);

}  // namespace baton
