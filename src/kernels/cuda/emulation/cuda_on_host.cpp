#include "kernels/cuda/emulation/cuda_on_host.h"

#include <memory>
#include <vector>

#include "base/check.h"

// Saves the callee-saved registers and the stack pointer of the running fiber in *save, and goes
// on where `to` was saved (System V x86-64).
extern "C" void baton_switch_fiber(void** save, void* to);
asm(R"(
.text
.globl baton_switch_fiber
baton_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace baton::cuda_on_host {

dim3 thread_index, block_index, block_size, grid_size;
unsigned char* dynamic_shared = nullptr;

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kWarpLanes = 32;

struct Fiber {
  std::unique_ptr<unsigned char[]> stack;
  void* stack_pointer = nullptr;
  bool ended = true;
};

// Lanes give values for generation g while slower ones may still read those of g - 1.
struct Warp {
  uint32_t values[2][kWarpLanes] = {};
  unsigned arrived = 0;
  uint64_t generation = 0;
};

// The running block. One grid at a time: this is what the contract of run_grid() says.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  void* scheduler = nullptr;  // stack pointer of run_grid
  unsigned current = 0;
  unsigned alive = 0;
  unsigned arrived = 0;  // at the barrier
  uint64_t generation = 0;
  int predicate = 0;
  int result = 0;
  uint64_t progress = 0;  // grows whenever someone can go on
  const std::function<void()>* body = nullptr;
};
Block block;

void yield() {
  baton_switch_fiber(&block.fibers[block.current].stack_pointer, block.scheduler);
}

void open_barrier() {
  block.arrived = 0;
  block.result = block.predicate;
  block.predicate = 0;
  ++block.generation;
  ++block.progress;
}

void fiber_main() {
  (*block.body)();
  block.fibers[block.current].ended = true;
  --block.alive;
  ++block.progress;
  if (block.arrived > 0 && block.arrived == block.alive) open_barrier();
  yield();
  BATON_CHECK(false, "an ended fiber ran again");
}

void start(Fiber& fiber) {
  if (fiber.stack == nullptr) fiber.stack.reset(new unsigned char[kStackBytes]);
  const auto top = reinterpret_cast<uintptr_t>(fiber.stack.get() + kStackBytes) / 64 * 64;
  void** at = reinterpret_cast<void**>(top);
  *--at = nullptr;  // as if called: the stack is 8 off a border of 16
  *--at = reinterpret_cast<void*>(&fiber_main);
  for (int saved = 0; saved < 6; ++saved) *--at = nullptr;
  fiber.stack_pointer = at;
  fiber.ended = false;
}

void run_block(unsigned threads) {
  block.alive = threads;
  block.arrived = 0;
  block.predicate = 0;
  block.warps.assign((threads + kWarpLanes - 1) / kWarpLanes, Warp{});
  for (unsigned i = 0; i < threads; ++i) start(block.fibers[i]);
  while (block.alive > 0) {
    const uint64_t before = block.progress;
    for (unsigned i = 0; i < threads; ++i) {
      if (block.fibers[i].ended) continue;
      block.current = i;
      thread_index = dim3(i, 0, 0);
      baton_switch_fiber(&block.scheduler, block.fibers[i].stack_pointer);
    }
    BATON_CHECK(block.progress != before, "threads wait for others that never come");
  }
}

}  // namespace

int barrier(int predicate) {
  block.predicate |= predicate;
  const uint64_t mine = block.generation;
  if (++block.arrived == block.alive) open_barrier();
  while (block.generation == mine) yield();
  return block.result;
}

uint32_t exchange(uint32_t value, unsigned source) {
  Warp& warp = block.warps[block.current / kWarpLanes];
  const uint64_t mine = warp.generation;
  warp.values[mine % 2][block.current % kWarpLanes] = value;
  if (++warp.arrived == kWarpLanes) {
    warp.arrived = 0;
    ++warp.generation;
    ++block.progress;
  }
  while (warp.generation == mine) yield();
  return warp.values[mine % 2][source];
}

uint32_t ballot(bool predicate) {
  Warp& warp = block.warps[block.current / kWarpLanes];
  const uint64_t mine = warp.generation;
  exchange(predicate ? 1 : 0, block.current % kWarpLanes);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) bits |= warp.values[mine % 2][lane] << lane;
  return bits;
}

void run_grid(dim3 grid, unsigned threads, size_t shared_bytes, const std::function<void()>& body) {
  block.body = &body;
  if (block.fibers.size() < threads) block.fibers.resize(threads);
  std::vector<unsigned char> shared(shared_bytes);
  dynamic_shared = shared.data();
  block_size = dim3(threads);
  grid_size = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = dim3(x, y, z);
        std::fill(shared.begin(), shared.end(), static_cast<unsigned char>(0xff));  // NaN
        run_block(threads);
      }
    }
  }
}

}  // namespace baton::cuda_on_host
