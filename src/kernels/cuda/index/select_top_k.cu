// The top_k best positions of each token, ascending, ties to the lowest position. One block
// per token: the top_k-th best score is found digit by digit (radix select over a monotone
// integer image of the scores), then one pass in order of position keeps what lies above it
// and as many of its equals as are still wanted. Counts are integers, so nothing depends on
// the order of threads.
#include "kernels/cuda/launch/views.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/primitives/reduce.cuh"

namespace baton::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == kThreads, "a thread owns a histogram bin");

// Exclusive prefix sum of a flag over the block, and the total. All threads call it.
struct Rank {
  int32_t before;
  int32_t total;
};
__device__ Rank block_rank(bool flag) {
  __shared__ int32_t counts[kWarps];
  const unsigned ballot = __ballot_sync(kAllLanes, flag);
  const unsigned lane = threadIdx.x % kWarp;
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  __syncthreads();  // readers of an earlier call are done
  if (lane == 0) counts[warp] = __popc(ballot);
  __syncthreads();
  Rank rank = {__popc(ballot & ((1U << lane) - 1U)), 0};
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) rank.before += counts[w];
    rank.total += counts[w];
  }
  return rank;
}

struct Threshold {
  uint32_t key;    // of the top_k-th best score
  int32_t wanted;  // how many scores equal to it belong to the selection
};

// count > top_k > 0.
__device__ Threshold find_threshold(const float* scores, int32_t count, int32_t top_k) {
  __shared__ int32_t histogram[kDigits];
  __shared__ Threshold found;
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  Threshold threshold = {0, top_k};
  uint32_t known = 0;  // mask of the digits already found
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    histogram[thread] = 0;
    __syncthreads();
    for (int32_t i = thread; i < count; i += kThreads) {
      const uint32_t key = score_key(scores[i]);
      if ((key & known) == threshold.key) {
        atomicAdd(&histogram[(key >> shift) & (kDigits - 1U)], 1);
      }
    }
    __syncthreads();
    int32_t above = 0;
    for (int32_t digit = thread + 1; digit < kDigits; ++digit) above += histogram[digit];
    if (above < threshold.wanted && above + histogram[thread] >= threshold.wanted) {
      found = {threshold.key | (static_cast<uint32_t>(thread) << shift), threshold.wanted - above};
    }
    __syncthreads();
    threshold = found;
    known |= (kDigits - 1U) << shift;
    __syncthreads();
  }
  return threshold;
}

__global__ void __launch_bounds__(kThreads) select_top_k_kernel(Rows<const float> scores,
                                                                const int32_t* positions,
                                                                int64_t first_token,
                                                                int32_t max_context,
                                                                int32_t top_k,
                                                                Rows<int32_t> selection) {
  const float* row = scores.row(blockIdx.x);
  int32_t* out = selection.row(blockIdx.x);
  const int32_t thread = static_cast<int32_t>(threadIdx.x);
  const int32_t count = min(positions[first_token + blockIdx.x] + 1, max_context);
  if (count <= top_k) {
    for (int32_t i = thread; i < top_k; i += kThreads) out[i] = i < count ? i : -1;
    return;
  }
  const Threshold threshold = find_threshold(row, count, top_k);
  int32_t equals_seen = 0;
  int32_t written = 0;
  for (int32_t first = 0; first < count && written < top_k; first += kThreads) {
    const int32_t p = first + thread;
    const uint32_t key = p < count ? score_key(row[p]) : 0;
    const bool equal = p < count && key == threshold.key;
    const Rank equals = block_rank(equal);
    const bool chosen = p < count && (key > threshold.key ||
                                      (equal && equals_seen + equals.before < threshold.wanted));
    const Rank place = block_rank(chosen);
    if (chosen) out[written + place.before] = p;
    equals_seen += equals.total;
    written += place.total;
  }
}

}  // namespace

void select_top_k(Queue& queue, const SelectTopKArgs& args) {
  BATON_CHECK(args.selection.dim(0) == args.scores.dim(0) && args.selection.dim(1) > 0,
              describe(args.selection),
              describe(args.scores));
  launch(queue,
         "select_top_k",
         &select_top_k_kernel,
         grid(args.scores.dim(0)),
         kThreads,
         0,
         rows_of(args.scores),
         i32_of(args.batch.positions),
         args.first_token,
         static_cast<int32_t>(args.scores.dim(1)),
         static_cast<int32_t>(args.selection.dim(1)),
         i32_rows_of(args.selection));
}

}  // namespace baton::cuda
