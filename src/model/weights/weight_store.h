// Where a model's weights live on its device: one buffer, sized beforehand. Loading runs the
// model's constructor twice: first against a planning store, which only adds up sizes (and finds
// every error before a byte is read), then against the real one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "device/device.h"

namespace baton {

class WeightStore {
 public:
  // Gives an address that must never be dereferenced.
  explicit WeightStore(const Device& device) : in_place_(device.host_addressable()) {}
  explicit WeightStore(bool in_place) : in_place_(in_place) {}

  static Result<WeightStore> allocate(Device& device, int64_t bytes);

  bool planning() const { return memory_.data() == nullptr; }
  // Mapped files can be used where they are.
  bool in_place() const { return in_place_; }
  int64_t used_bytes() const { return used_; }

  // Aligned to 256 bytes.
  void* take(int64_t bytes);

  // Fills [to, to + bytes) of memory taken from this store, piece by piece: `produce` writes the
  // bytes from `offset` on. Pieces are multiples of `granule` bytes. Nothing when planning.
  using Produce = std::function<void(int64_t offset, std::span<uint8_t> out)>;
  void write(void* to, int64_t bytes, int64_t granule, const Produce& produce);

  // Waits for all copies and gives up the memory: the model owns it from here on.
  Result<Buffer> finish();

 private:
  static constexpr int64_t kStagingBytes = 16 << 20;
  struct Staging {
    Buffer memory;
    std::unique_ptr<Event> copied;
  };

  Buffer memory_;
  std::unique_ptr<Queue> queue_;
  Staging staging_[2];  // while one is copied, the other is filled
  int next_staging_ = 0;
  int64_t used_ = 0;
  bool in_place_ = true;
  Status status_;
};

}  // namespace baton
