#include "device/tensor.h"

namespace baton {
namespace {

template <typename View, typename Pointer>
View contiguous_view(Pointer data, DType dtype, std::initializer_list<int64_t> dims) {
  BATON_CHECK(dims.size() <= kMaxRank, dims.size());
  View view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int>(dims.size());
  size_t i = 0;
  for (const int64_t dim : dims) view.dims[i++] = dim;
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.strides[static_cast<size_t>(axis)] = stride;
    stride *= view.dim(axis);
  }
  return view;
}

void* offset(const Tensor& t, int64_t elements) {
  return static_cast<char*>(t.data) + elements * dtype_bytes(t.dtype);
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kF64:
      return "F64";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kF8E5M2:
      return "F8_E5M2";
    case DType::kF8E8M0:
      return "F8_E8M0";
    case DType::kU8:
      return "U8";
    case DType::kI8:
      return "I8";
    case DType::kI16:
      return "I16";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kBool:
      return "BOOL";
  }
  return "?";
}

Tensor make_tensor(void* data, DType dtype, std::initializer_list<int64_t> dims) {
  return contiguous_view<Tensor>(data, dtype, dims);
}

ConstTensor make_tensor(const void* data, DType dtype, std::initializer_list<int64_t> dims) {
  return contiguous_view<ConstTensor>(data, dtype, dims);
}

Tensor columns(const Tensor& t, int64_t first, int64_t count) {
  const size_t inner = static_cast<size_t>(t.rank - 1);
  BATON_CHECK(first >= 0 && first + count <= t.dims[inner], first, count, describe(t));
  Tensor view = t;
  view.data = offset(t, first);
  view.dims[inner] = count;
  return view;
}

Tensor rows(const Tensor& t, int64_t first, int64_t count) {
  BATON_CHECK(first >= 0 && first + count <= t.dim(0), first, count, describe(t));
  Tensor view = t;
  view.data = offset(t, first * t.stride(0));
  view.dims[0] = count;
  return view;
}

Tensor split_inner(const Tensor& t, int64_t outer, int64_t inner) {
  BATON_CHECK(t.rank < kMaxRank && outer * inner == t.dim(t.rank - 1), outer, inner, describe(t));
  Tensor view = t;
  const size_t last = static_cast<size_t>(t.rank);
  view.rank = t.rank + 1;
  view.dims[last - 1] = outer;
  view.dims[last] = inner;
  view.strides[last - 1] = inner;
  view.strides[last] = 1;
  return view;
}

std::string describe(const ConstTensor& t) {
  // The analyzer misses that a converted tensor's fields are all set.
  std::string text(dtype_name(t.dtype));  // NOLINT(clang-analyzer-core.CallAndMessage)
  text += " [";
  for (int i = 0; i < t.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(t.dim(i));
  return text + "]";
}

}  // namespace baton
