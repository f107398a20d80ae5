// Tensor and ConstTensor: borrowed views of typed memory on some device. They own nothing,
// are cheap to copy and may be passed to device code by value. The innermost dimension is
// contiguous; outer dimensions may be strided, so columns of a matrix are a view.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/check.h"

namespace baton {

enum class DType : uint8_t {
  kF32,
  kBF16,
  kF16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kBool,
};

constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

// "F32", "BF16", ...: the names safetensors uses.
std::string_view dtype_name(DType dtype);

constexpr int kMaxRank = 4;

// Pointer is void* or const void*.
template <typename Pointer>
struct TensorView {
  Pointer data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};     // [outer, ..., inner]
  std::array<int64_t, kMaxRank> strides{};  // in elements; the innermost is 1

  bool empty() const { return data == nullptr; }
  int64_t dim(int i) const { return dims[static_cast<size_t>(i)]; }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i)]; }
  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= dim(i);
    return count;
  }
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  bool contiguous() const {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride(i) != expected) return false;
      expected *= dim(i);
    }
    return true;
  }
};

struct Tensor : TensorView<void*> {
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct ConstTensor : TensorView<const void*> {
  ConstTensor() = default;
  ConstTensor(const Tensor& t)  // NOLINT: implicit, as T* -> const T*
      : TensorView<const void*>{t.data, t.dtype, t.rank, t.dims, t.strides} {}
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

Tensor make_tensor(void* data, DType dtype, std::initializer_list<int64_t> dims);
ConstTensor make_tensor(const void* data, DType dtype, std::initializer_list<int64_t> dims);

// [..., n] -> [..., count]: columns [first, first + count) of the innermost dimension.
Tensor columns(const Tensor& t, int64_t first, int64_t count);
// [n, ...] -> [count, ...]: rows [first, first + count) of the outermost dimension.
Tensor rows(const Tensor& t, int64_t first, int64_t count);
// Splits the innermost dimension: [..., a * b] -> [..., a, b].
Tensor split_inner(const Tensor& t, int64_t outer, int64_t inner);

// "f32 [3, 64]" for messages.
std::string describe(const ConstTensor& t);

}  // namespace baton
