// For tests: drives a Model without an engine. One sequence, its block table made by hand (blocks
// in an unusual order, the pool filled with a pattern first), scratch sized by a planning pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tables.h"
#include "model/model.h"

namespace baton::testing {

// A tensor of a golden file.
struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // of F32 tensors
  std::vector<int32_t> ints;  // of I32 tensors
};
using Golden = std::map<std::string, GoldenTensor>;

Golden read_golden(const std::string& path);

class ModelHarness {
 public:
  // `table`: "reference" or "auto" on the CPU; "cuda", or "cuda_graph": every forward pass is
  // captured and replayed, and nothing is observed. The sequence may grow to `max_tokens`.
  static Result<std::unique_ptr<ModelHarness>> open(const std::string& folder,
                                                    const std::string& table,
                                                    const LoadOptions& options,
                                                    int64_t max_tokens,
                                                    int threads = 2);

  // Appends tokens to the sequence in one forward pass; logits [tokens, vocab] of all of them.
  std::vector<float> run(std::span<const int32_t> tokens);
  // The whole of `tokens` in pieces of the given lengths; the rest is the last piece.
  std::vector<float> run_chunks(std::span<const int32_t> tokens,
                                const std::vector<int64_t>& chunks);
  void restart();

  // What observe() saw of the last run: "selection.4" -> values of all tokens.
  const std::map<std::string, std::vector<float>>& floats() const { return floats_; }
  const std::map<std::string, std::vector<int32_t>>& ints() const { return ints_; }
  const Model& model() const { return *model_; }
  // Every byte of the sequence's rows and index keys in order, block by block.
  std::vector<uint8_t> kv_bytes() const;
  int64_t length() const { return length_; }

 private:
  ModelHarness() = default;
  Buffer upload(std::span<const int32_t> values) const;
  void forward(ForwardContext& context);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  const KernelTable* kernels_ = nullptr;
  bool capture_ = false;
  std::unique_ptr<Model> model_;
  std::vector<int32_t> block_table_;
  Buffer device_table_;  // the same
  Buffer pool_;
  Buffer scratch_;
  int64_t max_tokens_ = 0;
  int64_t length_ = 0;
  std::map<std::string, std::vector<float>> floats_;
  std::map<std::string, std::vector<int32_t>> ints_;
};

// |got - want| / |want| over all values.
double relative_l2(std::span<const float> got, std::span<const float> want);

}  // namespace baton::testing
