// The safetensors format: u64 little-endian header length N, N bytes of JSON, then the data
// area. Every size and offset is checked before any tensor is used, so that a broken download
// is an error with a name and not a page of zeros.
//
// Source: safetensors README ("Format"); models.md G.1.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/tensor.h"

namespace baton {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // [outer, ..., inner]; empty for a scalar
  int64_t begin = 0;           // bytes from the start of the file
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
};

// The tensors of a whole file in the order of their bytes. `path` names it in errors. Refused:
// header length 0, beyond the file or above 100 MB; anything but the expected JSON; duplicate
// names; offsets reversed, overlapping, with holes or beyond the file; a size that is not
// product(shape) * width; bytes after the last tensor; a Git LFS pointer.
Result<std::vector<TensorEntry>> parse_safetensors(std::span<const uint8_t> file,
                                                   std::string_view path);

// "BF16 [48, 64]" for messages.
std::string describe_stored(DType dtype, const std::vector<int64_t>& shape);

}  // namespace baton
