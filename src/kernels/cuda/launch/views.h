// Tensors as kernels take them: a typed pointer and strides in elements. TensorView's
// accessors are host functions.
#pragma once

#include "base/check.h"
#include "device/tensor.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/kernels.h"
#include "kv_cache/row_formats/index_page.h"

namespace baton::cuda {

// [rows, n]
template <typename T>
struct Rows {
  T* data;
  int64_t stride;  // between rows

  __device__ T* row(int64_t r) const { return data + r * stride; }
};

// [tokens, heads, n]
template <typename T>
struct Heads {
  T* data;
  int64_t token_stride;
  int64_t head_stride;

  __device__ T* row(int64_t token, int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};

inline void check_f32(const ConstTensor& t, int rank) {
  BATON_CHECK(t.dtype == DType::kF32 && t.rank == rank, describe(t), rank);
  BATON_CHECK(t.dim(rank - 1) <= 1 || t.stride(rank - 1) == 1, describe(t));
}

inline Rows<const float> rows_of(const ConstTensor& t) {
  check_f32(t, 2);
  return {t.as<float>(), t.stride(0)};
}
inline Rows<float> rows_of(const Tensor& t) {
  check_f32(t, 2);
  return {t.as<float>(), t.stride(0)};
}
inline Heads<const float> heads_of(const ConstTensor& t) {
  check_f32(t, 3);
  return {t.as<float>(), t.stride(0), t.stride(1)};
}
inline Heads<float> heads_of(const Tensor& t) {
  check_f32(t, 3);
  return {t.as<float>(), t.stride(0), t.stride(1)};
}
inline Rows<const int32_t> i32_rows_of(const ConstTensor& t) {
  BATON_CHECK(t.dtype == DType::kI32 && t.rank == 2, describe(t));
  return {t.as<int32_t>(), t.stride(0)};
}
inline Rows<int32_t> i32_rows_of(const Tensor& t) {
  BATON_CHECK(t.dtype == DType::kI32 && t.rank == 2, describe(t));
  return {t.as<int32_t>(), t.stride(0)};
}
inline const int32_t* i32_of(const ConstTensor& t) {
  BATON_CHECK(t.dtype == DType::kI32 && t.rank == 1 && (t.dim(0) <= 1 || t.stride(0) == 1),
              describe(t));
  return t.as<int32_t>();
}
// An optional [n] f32 vector: null when empty.
inline const float* vector_of(const ConstTensor& t) {
  if (t.empty()) return nullptr;
  check_f32(t, 1);
  return t.as<float>();
}

// BatchLayout with device pointers only.
struct Batch {
  const int32_t* positions;    // [tokens]
  const int32_t* sequence_of;  // [tokens]
  Rows<const int32_t> block_table;

  // The block of position p of token t's sequence; -1: none.
  __device__ int32_t block_of(int64_t t, int32_t p) const {
    return block_table.row(sequence_of[t])[p / kBlockTokens];
  }
};

inline Batch batch_of(const BatchLayout& batch) {
  return {i32_of(batch.positions), i32_of(batch.sequence_of), i32_rows_of(batch.block_table)};
}

}  // namespace baton::cuda
