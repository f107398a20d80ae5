// What a CPU kernel needs for the length of one call: lists of work items, tiles per worker. Owned
// by a queue, used by the thread that enqueues; workers only write into what it took. Taken piece
// by piece, given back as a whole by a Frame, and kept: after the largest call nothing is
// allocated any more.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace baton {

class CallMemory final : public std::pmr::memory_resource {
 public:
  CallMemory() = default;
  ~CallMemory() override;
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // Aligned to a cache line; contents are undefined.
  void* take(size_t bytes);

  // Gives back everything taken since it was made. Frames nest.
  class Frame {
   public:
    explicit Frame(CallMemory& memory) : memory_(memory), used_(memory.used_) { ++memory.depth_; }
    ~Frame() { memory_.give_back(used_); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    CallMemory& memory_;
    size_t used_;
  };

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  void give_back(size_t used);

  // One block; a call that needs more borrows the rest, and the block grows when it ends.
  std::byte* block_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;  // may exceed size_: what the block should have held
  size_t most_used_ = 0;
  int depth_ = 0;
  std::vector<void*> borrowed_;
};

}  // namespace baton
