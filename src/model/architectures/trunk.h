// What surrounds the layers of every decoder: embedding before, final norm and head after.
#pragma once

#include "model/model.h"
#include "model/weights/weight_reader.h"

namespace baton {

struct Trunk {
  WeightView embed_tokens;  // [vocab, hidden]
  ConstTensor norm;         // [hidden]
  WeightView lm_head;       // [vocab, hidden]; the embedding when tied
};

// With tie_word_embeddings the head is the embedding, unless the files hold a lm_head of their
// own: then that one is used, with a warning where it differs.
Trunk read_trunk(const ModelConfig& config, WeightReader& weights);

// [tokens, hidden], in the caller's frame.
Tensor embed_tokens(ForwardContext& context, const ModelConfig& config, const Trunk& trunk);

// logits = lm_head(norm(hidden)) for the rows that are sampled from; nothing without any.
void write_logits(ForwardContext& context,
                  const ModelConfig& config,
                  const Trunk& trunk,
                  const Tensor& hidden);

inline void observe(ForwardContext& context,
                    std::string_view name,
                    size_t layer,
                    const ConstTensor& tensor) {
  if (context.observe != nullptr) (*context.observe)(name, static_cast<int>(layer), tensor);
}

}  // namespace baton
