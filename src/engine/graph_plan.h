// Which decode batches are captured and replayed. Owned by the model runner, engine thread.
//
// A decode step's shapes are rounded up to a grid: batch sizes (in tokens, drafts included) 1, 2,
// 4, 8, 16, ... and contexts of 4,096 tokens times a power of four, each ending at its limit. A
// captured graph holds its addresses and shapes, so one graph serves every step of its cell; a cell
// is captured the first time it is met.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/result.h"
#include "device/device.h"

namespace baton {

struct GraphCell {
  int32_t batch = 0;    // tokens, padding included; as many sequences and rows of logits
  int32_t context = 0;  // upper bound of positions + 1

  // clang-tidy 14 takes the 0 that a comparison is compared with for a null pointer.
  auto operator<=>(const GraphCell&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The smallest cell that holds the step; limits are max_decode_tokens() and max_model_len.
GraphCell graph_cell(int32_t batch, int32_t context, const GraphCell& limits);

class GraphPlan {
 public:
  // Runs `work`, which only enqueues: captured on the first call for a cell, replayed on every
  // one. False: the device could not capture; nothing was run, and graphs are off from now on.
  bool run(Queue& queue, const GraphCell& cell, const std::function<void()>& work);

  bool usable() const { return usable_; }
  int64_t replays() const { return replays_; }
  size_t captured() const { return graphs_.size(); }

 private:
  const Graph* capture(Queue& queue, const GraphCell& cell, const std::function<void()>& work);

  std::map<GraphCell, std::unique_ptr<Graph>> graphs_;
  int64_t replays_ = 0;
  bool usable_ = true;
};

}  // namespace baton
