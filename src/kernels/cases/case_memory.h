// The memory of one kernel case on any device: seeded random inputs, and outputs that start
// poisoned and lie between guards. Whatever lies in the gaps of a strided view is NaN for
// inputs and must stay untouched for outputs.
//
// Owned by whoever runs the case; used from one thread. Failed allocations and copies CHECK: a
// case that cannot be set up proves nothing.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace baton {

// Elements left unused after each row of a view: between the rows of the outermost dimension
// and, for rank 3, between heads.
struct Gaps {
  int64_t rows = 0;
  int64_t heads = 0;
};

// One output of a case, back on the host.
struct CaseOutput {
  DType dtype = DType::kF32;
  std::vector<float> floats;      // f32 outputs, the view's elements in row order
  std::vector<int64_t> integers;  // i32 and u8 outputs
};

struct CaseResult {
  std::vector<CaseOutput> outputs;  // in the order they were made
  bool guards_intact = true;
};

class CaseMemory {
 public:
  using Dims = std::vector<int64_t>;

  CaseMemory(Device& device, Queue& queue, uint64_t seed);

  std::mt19937_64& random() { return random_; }
  float normal();
  int64_t uniform(int64_t low, int64_t high);  // both ends included
  std::vector<float> normals(int64_t count, float scale = 1.0F);
  // Small integers, exact in every stored form: sums of their products are exact too.
  std::vector<float> small_integers(int64_t count, int64_t low, int64_t high);

  ConstTensor input(const std::vector<float>& values, const Dims& dims, Gaps gaps = {});
  ConstTensor input(const std::vector<int32_t>& values, const Dims& dims);
  ConstTensor normal_input(const Dims& dims, Gaps gaps = {}, float scale = 1.0F);
  // Contiguous values stored as f32, bf16 or f16.
  ConstTensor stored_input(const std::vector<float>& values, const Dims& dims, DType dtype);

  // Random values in the stored form. block_*: fp8 only.
  WeightView weight(WeightForm form,
                    int64_t rows,
                    int64_t columns,
                    int32_t block_rows = 128,
                    int32_t block_columns = 128);

  void* upload(const void* data, size_t bytes);

  Tensor output(DType dtype, const Dims& dims, Gaps gaps = {});
  Tensor in_out(const std::vector<float>& values, const Dims& dims, Gaps gaps = {});
  uint8_t* in_out_bytes(const std::vector<uint8_t>& bytes);

  // Workspace: poisoned, not compared.
  Tensor workspace(const Dims& dims);

  // Lives as long as this memory: Args hold references to it.
  const BatchLayout& keep(const BatchLayout& batch) { return batches_.emplace_back(batch); }

  CaseResult read();

 private:
  struct Output {
    Tensor view;            // on the device
    std::byte* allocation;  // guard, values, guard
    std::vector<std::byte> before;
  };

  std::byte* allocate(size_t bytes);
  void copy(void* to, const void* from, size_t bytes);
  Tensor guarded(DType dtype, const Dims& dims, Gaps gaps, const void* values);

  Device& device_;
  Queue& queue_;
  std::mt19937_64 random_;
  std::vector<Buffer> buffers_;
  std::vector<Output> outputs_;
  std::deque<BatchLayout> batches_;
};

// A view of `dims` with the strides that `gaps` asks for; data is null.
Tensor strided_view(DType dtype, const std::vector<int64_t>& dims, Gaps gaps);

}  // namespace baton
