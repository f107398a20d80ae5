#include "engine/logit_row.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/numeric.h"

namespace baton {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kLog2E = std::numbers::log2e_v<float>;

// exp(-50): a weight below it counts as 0. All of a vocabulary of a million such tokens together
// weigh less than the step between two uniform numbers.
constexpr float kNegligible = -50.0F * kLog2E;

// Best first, as integers: the logit's bits, turned so that larger is less, then the token.
uint64_t rank_of(float logit, int32_t token) {
  const uint32_t bits = float_bits(logit + 0.0F);  // -0 equals 0
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint32_t>(token);
}
int32_t token_of(uint64_t rank) {
  return static_cast<int32_t>(rank & 0xffffffffU);
}

double total_of(std::span<const float> sums) {
  double total = 0.0;
  for (const float sum : sums) total += static_cast<double>(sum);
  return total;
}

}  // namespace

LogitRow::LogitRow(std::span<const float> logits)
    : logits_(logits), tops_((logits.size() + kLogitBlock - 1) / kLogitBlock) {
  const size_t whole = logits.size() / kLogitBlock;
  last_.fill(kNever);
  std::ranges::copy(logits.subspan(whole * kLogitBlock), last_.begin());
  const std::span<float> tops(tops_);
  finite_ = find_tops(logits.data(), tops.first(whole));
  finite_ &= find_tops(last_.data(), tops.subspan(whole));
  maximum_ = std::ranges::max(tops_);
  finite_ &= std::isfinite(maximum_);
}

const float* LogitRow::block(size_t b) const {
  const size_t first = b * kLogitBlock;
  return first + kLogitBlock <= logits_.size() ? &logits_[first] : last_.data();
}

int32_t LogitRow::argmax() const {
  const auto b = static_cast<size_t>(std::ranges::find(tops_, maximum_) - tops_.begin());
  const float* logits = block(b);
  const auto i = std::find(logits, logits + kLogitBlock, maximum_) - logits;
  return static_cast<int32_t>(b * kLogitBlock) + static_cast<int32_t>(i);
}

// At most the logit of the `count`-th best token: that many blocks hold one as large.
float LogitRow::top_of_rank(size_t count) const {
  if (count > tops_.size()) return kNever;
  std::vector<float> tops = tops_;
  const auto at = tops.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::ranges::nth_element(tops, at, std::greater());
  return *at;
}

std::vector<uint64_t> LogitRow::ranks_from(float at_least) const {
  std::vector<uint64_t> ranks;
  for (size_t b = 0; b < tops_.size(); ++b) {
    if (tops_[b] < at_least) continue;
    const size_t end = std::min((b + 1) * kLogitBlock, logits_.size());
    for (size_t i = b * kLogitBlock; i < end; ++i) {
      if (logits_[i] >= at_least) ranks.push_back(rank_of(logits_[i], static_cast<int32_t>(i)));
    }
  }
  return ranks;
}

std::vector<int32_t> LogitRow::best(size_t count) const {
  count = std::min(count, logits_.size());
  if (count == 0) return {};
  std::vector<uint64_t> ranks = ranks_from(top_of_rank(count));
  std::ranges::partial_sort(ranks, ranks.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<int32_t> tokens(count);
  std::transform(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count), tokens.begin(), &token_of);
  return tokens;
}

double LogitRow::log_sum_exp() const {
  const Softmax softmax{.maximum = maximum_, .scale = kLog2E, .lowest = kNegligible};
  return static_cast<double>(maximum_) + std::log(total_of(weigh_all(softmax, {})));
}

// Returns the sum.
float LogitRow::weigh(size_t b, const Softmax& softmax, const Cut& cut, Block& weights) const {
  const auto first = static_cast<int32_t>(b * kLogitBlock);
  const auto ties = static_cast<size_t>(std::max(cut.ties_until - first, 0));
  const float* logits = block(b);
  if (ties >= kLogitBlock) return weigh_block(logits, softmax, cut.logit, weights.data());
  if (ties == 0) {
    const float above = std::nextafter(cut.logit, std::numeric_limits<float>::infinity());
    return weigh_block(logits, softmax, above, weights.data());
  }
  Block left;
  std::copy_n(logits, kLogitBlock, left.begin());
  std::replace(left.begin() + static_cast<std::ptrdiff_t>(ties), left.end(), cut.logit, kNever);
  return weigh_block(left.data(), softmax, cut.logit, weights.data());
}

// The sum of every block.
std::vector<float> LogitRow::weigh_all(const Softmax& softmax, const Cut& cut) const {
  std::vector<float> sums(tops_.size());
  Block weights;
  for (size_t b = 0; b < sums.size(); ++b) {
    if (tops_[b] >= cut.logit) sums[b] = weigh(b, softmax, cut, weights);
  }
  return sums;
}

// What each bucket holds within `cut`, as far as the quota can reach.
LogitRow::Amounts LogitRow::spread(const Softmax& softmax,
                                   const Cut& cut,
                                   const Quota& quota) const {
  Amounts amounts{};
  Block weights;
  std::array<int32_t, kLogitBlock> buckets;
  for (size_t b = 0; b < tops_.size(); ++b) {
    if (tops_[b] < std::max(cut.logit, quota.at_least)) continue;
    (void)weigh(b, softmax, cut, weights);
    bucket_block(block(b), softmax, buckets.data());
    for (size_t i = 0; i < kLogitBlock; ++i) {
      amounts[static_cast<size_t>(buckets[i])] += quota.amount(weights[i]);
    }
  }
  return amounts;
}

std::vector<LogitRow::Candidate> LogitRow::candidates_of(int32_t bucket,
                                                         const Softmax& softmax,
                                                         const Cut& cut,
                                                         const Quota& quota) const {
  // A whole bucket wide of its middle on both sides, where half of one would do but for rounding.
  const float width = 1.0F / (kBucketsPerOctave * softmax.scale);
  const float low = maximum_ - static_cast<float>(bucket + 1) * width;
  const float high = maximum_ - static_cast<float>(bucket - 1) * width;
  std::vector<Candidate> candidates;
  Block weights;
  std::array<int32_t, kLogitBlock> buckets;
  for (size_t b = 0; b < tops_.size(); ++b) {
    if (tops_[b] < std::max(cut.logit, low) || !any_between(block(b), low, high)) continue;
    (void)weigh(b, softmax, cut, weights);
    bucket_block(block(b), softmax, buckets.data());
    for (size_t i = 0; i < kLogitBlock; ++i) {
      if (buckets[i] != bucket || weights[i] <= 0.0F) continue;
      const auto token = static_cast<int32_t>(b * kLogitBlock + i);
      candidates.push_back({rank_of(logit(token), token), quota.amount(weights[i])});
    }
  }
  return candidates;
}

// The token with which the amounts, best first, reach `enough`; `kept` is what came before.
int32_t LogitRow::last_needed(std::span<Candidate> candidates, double kept, double enough) {
  constexpr size_t kFew = 32;
  while (candidates.size() > kFew) {
    const size_t half = candidates.size() / 2;
    std::ranges::nth_element(
        candidates, candidates.begin() + static_cast<std::ptrdiff_t>(half), {}, &Candidate::rank);
    double better = 0.0;
    for (const Candidate& candidate : candidates.first(half)) better += candidate.amount;
    const bool reached = kept + better >= enough;
    if (!reached) kept += better;
    candidates = reached ? candidates.first(half) : candidates.subspan(half);
  }
  std::ranges::sort(candidates, {}, &Candidate::rank);
  size_t i = 0;
  while (i + 1 < candidates.size() && kept + candidates[i].amount < enough) {
    kept += candidates[i++].amount;
  }
  return token_of(candidates[i].rank);
}

// The shortest list of best tokens within `cut` that reaches the quota. Whole buckets are in or
// out; only the one on the border is looked into.
LogitRow::Cut LogitRow::narrow(const Softmax& softmax, const Cut& cut, const Quota& quota) const {
  const Amounts amounts = spread(softmax, cut, quota);
  double kept = 0.0;
  size_t border = 0;
  while (border < kWeightBuckets && kept + amounts[border] < quota.enough) {
    kept += amounts[border++];
  }
  if (border == kWeightBuckets) return cut;  // all of it is not more than enough
  std::vector<Candidate> candidates =
      candidates_of(static_cast<int32_t>(border), softmax, cut, quota);
  const int32_t last = last_needed(candidates, kept, quota.enough);
  return {.logit = logit(last), .ties_until = last + 1};
}

// The token at which the running sum, in order of token id, passes `target`.
int32_t LogitRow::pick(const Softmax& softmax,
                       const Cut& cut,
                       std::span<const float> sums,
                       double target) const {
  double before = 0.0, sum = 0.0;
  size_t at = 0;
  for (size_t b = 0; b < sums.size() && sum <= target; ++b) {
    if (sums[b] <= 0.0F) continue;
    at = b;
    before = sum;
    sum += static_cast<double>(sums[b]);
  }
  Block weights;
  (void)weigh(at, softmax, cut, weights);
  size_t last = 0;
  for (size_t i = 0; i < kLogitBlock && before <= target; ++i) {
    if (weights[i] <= 0.0F) continue;
    last = i;
    before += static_cast<double>(weights[i]);
  }
  return static_cast<int32_t>(at * kLogitBlock + last);
}

int32_t LogitRow::draw(const Filter& filter, double random) const {
  const Softmax softmax{.maximum = maximum_,
                        .scale = kLog2E / filter.temperature,
                        .lowest = std::max(kNegligible, std::log2(filter.min_p))};
  Cut cut;
  if (filter.top_k > 0 && static_cast<size_t>(filter.top_k) < logits_.size()) {
    const float at_least = top_of_rank(static_cast<size_t>(filter.top_k));
    cut =
        narrow(softmax,
               cut,
               {.enough = static_cast<double>(filter.top_k), .counts = true, .at_least = at_least});
  }
  std::vector<float> sums = weigh_all(softmax, cut);
  if (filter.top_p < 1.0F) {
    const double total = total_of(sums);
    const double enough = static_cast<double>(filter.top_p) * total;
    // Tokens that weigh less than this are less than what may be left out, all together. Half of
    // it, for the rounding.
    const double least = 0.5 * (total - enough) / static_cast<double>(logits_.size());
    const float at_least = maximum_ + static_cast<float>(std::log2(least)) / softmax.scale;
    cut = narrow(softmax, cut, {.enough = enough, .counts = false, .at_least = at_least});
    sums = weigh_all(softmax, cut);
  }
  return pick(softmax, cut, sums, random * total_of(sums));
}

}  // namespace baton
