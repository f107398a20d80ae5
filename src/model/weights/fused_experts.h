// Experts of a layer that are stored as transformers 5 holds them in memory: "experts.gate_up_proj"
// [experts, 2 * width, hidden] (gate rows first) and "experts.down_proj" [experts, hidden, width].
// Checkpoints written with save_original_format=False are like this.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/weights/checkpoint.h"

namespace baton {

// Replaces each fused tensor by one tensor per expert and projection, under the names that other
// checkpoints have: views of the same bytes.
Status split_fused_experts(std::map<std::string, StoredTensor, std::less<>>& tensors);

// The fused tensor that would hold the matrix of `module` ("a.experts.3.up_proj"); "" for others.
std::string fused_experts_name(std::string_view module);

}  // namespace baton
