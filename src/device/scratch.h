// Scratch: the planned arena that a forward pass takes its intermediate tensors from. A bump
// pointer with frames; nothing is freed one by one, nothing is allocated during a step.
//
// The size is found by running the same forward pass once in planning mode (no memory behind
// it, kernels that do nothing) and reading peak_bytes(): the plan cannot differ from the run.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "device/tensor.h"

namespace baton {

class Scratch {
 public:
  // Planning mode: hands out addresses that must never be dereferenced.
  Scratch();
  Scratch(void* base, size_t bytes);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Contiguous, aligned to 256 bytes. Contents are undefined. CHECKs that it fits the plan.
  Tensor take(DType dtype, std::initializer_list<int64_t> dims);
  Tensor take(std::initializer_list<int64_t> dims) { return take(DType::kF32, dims); }

  size_t peak_bytes() const { return peak_; }
  bool planning() const { return planning_; }

  // Gives back everything taken since it was made. Safe within one queue: work is in order.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), mark_(scratch.used_) {}
    ~Frame() { scratch_.used_ = mark_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    size_t mark_;
  };

 private:
  std::byte* base_;
  size_t capacity_;
  size_t used_ = 0;
  size_t peak_ = 0;
  bool planning_;
};

}  // namespace baton
