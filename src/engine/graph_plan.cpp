#include "engine/graph_plan.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace baton {
namespace {

constexpr int32_t kSmallestContext = 4096;

int32_t round_up(int32_t value, int64_t smallest, int64_t factor, int32_t limit) {
  int64_t step = smallest;
  while (step < value) step *= factor;
  return static_cast<int32_t>(std::min<int64_t>(step, limit));
}

}  // namespace

GraphCell graph_cell(int32_t batch, int32_t context, const GraphCell& limits) {
  return {.batch = round_up(batch, 1, 2, limits.batch),
          .context = round_up(context, kSmallestContext, 4, limits.context)};
}

const Graph* GraphPlan::capture(Queue& queue,
                                const GraphCell& cell,
                                const std::function<void()>& work) {
  Status begun = queue.begin_capture();
  if (!begun) {
    log_warning("decode graphs are off: " + begun.error().message);
    return nullptr;
  }
  work();
  auto graph = queue.end_capture();
  if (!graph) {
    log_warning("decode graphs are off: " + graph.error().message);
    return nullptr;
  }
  return (graphs_[cell] = *std::move(graph)).get();
}

bool GraphPlan::run(Queue& queue, const GraphCell& cell, const std::function<void()>& work) {
  const auto found = graphs_.find(cell);
  const Graph* graph = found != graphs_.end() ? found->second.get() : capture(queue, cell, work);
  if (graph == nullptr) {
    usable_ = false;
    return false;
  }
  queue.replay(*graph);
  ++replays_;
  return true;
}

}  // namespace baton
