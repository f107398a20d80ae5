// One row of logits, seen in blocks: each knows its largest logit, so that what only concerns the
// best tokens looks at few of them. Borrows the row, which must not change meanwhile; one thread.
//
// "Best first" is by logit, equal ones by token id. All sums are taken in one order: the same row
// gives the same bits wherever and beside whatever it is computed.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/logit_loops.h"

namespace baton {

class LogitRow {
 public:
  explicit LogitRow(std::span<const float> logits);

  // False when a NaN is present or the maximum is not finite: then nothing else may be asked.
  bool finite() const { return finite_; }
  float maximum() const { return maximum_; }
  float logit(int32_t token) const { return logits_[static_cast<size_t>(token)]; }

  int32_t argmax() const;
  // The `count` best, best first.
  std::vector<int32_t> best(size_t count) const;
  double log_sum_exp() const;

  struct Filter {
    float temperature = 1.0F;  // > 0
    float min_p = 0.0F;        // of the largest weight
    int32_t top_k = 0;         // <= 0: off
    float top_p = 1.0F;
  };
  // `random` in [0, 1) chooses among the weights exp(logit / temperature) that pass min_p, then
  // top_k, then top_p, laid side by side in order of token id. At least one passes.
  int32_t draw(const Filter& filter, double random) const;

 private:
  // Keeps logits above `logit`, and equal ones of tokens before `ties_until`.
  struct Cut {
    float logit = -std::numeric_limits<float>::infinity();
    int32_t ties_until = std::numeric_limits<int32_t>::max();
  };
  // How much to keep: weight, or a number of tokens. None below `at_least` can be among them.
  struct Quota {
    double enough = 0.0;
    bool counts = false;
    float at_least = -std::numeric_limits<float>::infinity();
    double amount(float weight) const {
      return static_cast<double>(counts && weight > 0.0F ? 1.0F : weight);
    }
  };
  struct Candidate {
    uint64_t rank = 0;  // see rank_of()
    double amount = 0.0;
  };
  using Amounts = std::array<double, kWeightBuckets + 1>;
  using Block = std::array<float, kLogitBlock>;

  const float* block(size_t b) const;
  float top_of_rank(size_t count) const;
  std::vector<uint64_t> ranks_from(float at_least) const;
  float weigh(size_t b, const Softmax& softmax, const Cut& cut, Block& weights) const;
  std::vector<float> weigh_all(const Softmax& softmax, const Cut& cut) const;
  Amounts spread(const Softmax& softmax, const Cut& cut, const Quota& quota) const;
  std::vector<Candidate> candidates_of(int32_t bucket,
                                       const Softmax& softmax,
                                       const Cut& cut,
                                       const Quota& quota) const;
  static int32_t last_needed(std::span<Candidate> candidates, double kept, double enough);
  Cut narrow(const Softmax& softmax, const Cut& cut, const Quota& quota) const;
  int32_t pick(const Softmax& softmax,
               const Cut& cut,
               std::span<const float> sums,
               double target) const;

  std::span<const float> logits_;
  std::vector<float> tops_;  // [blocks]
  Block last_;               // the last block, padded with -inf
  float maximum_ = 0.0F;
  bool finite_ = false;
};

}  // namespace baton
