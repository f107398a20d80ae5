#include "model/weights/weight_store.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace baton {
namespace {

constexpr int64_t kAlignment = 256;
// What a planning store gives out for everything: aligned and not null.
alignas(kAlignment) constexpr std::byte kNowhere{};

}  // namespace

Result<WeightStore> WeightStore::allocate(Device& device, int64_t bytes) {
  WeightStore store(device);
  Result<Buffer> memory = device.allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (!memory) {
    return resource_exhausted("no room for " + std::to_string(bytes) + " bytes of weights on " +
                              std::string(device.name()) + ": " + memory.error().message);
  }
  store.memory_ = std::move(*memory);
  if (store.in_place_) return store;
  Result<std::unique_ptr<Queue>> queue = device.create_queue();
  if (!queue) return queue.error();
  store.queue_ = std::move(*queue);
  for (Staging& staging : store.staging_) {
    Result<Buffer> pinned = device.allocate_host(static_cast<size_t>(kStagingBytes));
    if (!pinned) return pinned.error();
    staging.memory = std::move(*pinned);
  }
  return store;
}

void* WeightStore::take(int64_t bytes) {
  const int64_t at = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (planning()) return const_cast<std::byte*>(&kNowhere);
  BATON_CHECK(used_ <= static_cast<int64_t>(memory_.size()) + kAlignment - 1,
              "weights beyond their plan");
  return memory_.bytes() + at;
}

void WeightStore::write(void* to, int64_t bytes, int64_t granule, const Produce& produce) {
  if (planning() || bytes == 0) return;
  if (queue_ == nullptr) {
    produce(0, {static_cast<uint8_t*>(to), static_cast<size_t>(bytes)});
    return;
  }
  BATON_CHECK(granule <= kStagingBytes, granule);
  const int64_t piece = kStagingBytes / granule * granule;
  for (int64_t at = 0; at < bytes; at += piece) {
    Staging& staging = staging_[next_staging_];
    next_staging_ ^= 1;
    if (staging.copied != nullptr && status_) status_ = staging.copied->wait();
    const auto count = static_cast<size_t>(std::min(piece, bytes - at));
    produce(at, {reinterpret_cast<uint8_t*>(staging.memory.data()), count});
    queue_->copy(static_cast<uint8_t*>(to) + at, staging.memory.data(), count);
    staging.copied = queue_->record();
  }
}

Result<Buffer> WeightStore::finish() {
  if (queue_ != nullptr) {
    if (const Status done = queue_->synchronize(); !done) return done.error();
  }
  if (!status_) return status_.error();
  return std::move(memory_);
}

}  // namespace baton
