#include "kernels/cases/case_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace baton {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// 0xff makes NaN of every float form; for integers it would be -1, which is an answer.
uint8_t poison_of(DType dtype) {
  return dtype == DType::kF32 ? 0xff : 0xa5;
}

// Elements from the first to the last of a view, gaps included.
int64_t span_of(const Tensor& view) {
  int64_t last = 0;
  for (int i = 0; i < std::min(view.rank, kMaxRank); ++i) {
    if (view.dim(i) == 0) return 0;
    last += (view.dim(i) - 1) * view.stride(i);
  }
  return last + 1;
}

// Calls visit(offset) for each element of a view, in row order.
template <typename Visit>
void for_each_offset(const Tensor& view, int level, int64_t offset, const Visit& visit) {
  if (level == view.rank || level == kMaxRank) return visit(offset);
  for (int64_t i = 0; i < view.dim(level); ++i) {
    for_each_offset(view, level + 1, offset + i * view.stride(level), visit);
  }
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void append_value(CaseOutput& output, const std::byte* at) {
  if (output.dtype == DType::kF32) {
    output.floats.push_back(load<float>(at));
  } else if (output.dtype == DType::kI32) {
    output.integers.push_back(load<int32_t>(at));
  } else {
    output.integers.push_back(load<uint8_t>(at));
  }
}

}  // namespace

Tensor strided_view(DType dtype, const std::vector<int64_t>& dims, Gaps gaps) {
  Tensor view;
  view.dtype = dtype;
  view.rank = static_cast<int>(dims.size());
  int64_t stride = 1;
  BATON_CHECK(dims.size() <= kMaxRank, dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    view.dims[i] = dims[i];
    view.strides[i] = stride;
    stride *= dims[i];
    if (i == 2) stride += gaps.heads;
    if (i == 1) stride += gaps.rows;
  }
  return view;
}

CaseMemory::CaseMemory(Device& device, Queue& queue, uint64_t seed)
    : device_(device), queue_(queue), random_(seed) {}

float CaseMemory::normal() {
  // The sum of eight uniform values: close enough to normal, and the same on every machine.
  uint64_t sum = 0;
  for (int draw = 0; draw < 2; ++draw) {
    for (uint64_t bits = random_(), i = 0; i < 4; ++i, bits >>= 16) sum += bits & 0xffff;
  }
  constexpr double kDeviation = 0.816496580927726;  // of that sum: sqrt(8 / 12)
  return static_cast<float>((static_cast<double>(sum) / 65536.0 - 4.0) / kDeviation);
}

int64_t CaseMemory::uniform(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

std::vector<float> CaseMemory::normals(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal() * scale;
  return values;
}

std::vector<float> CaseMemory::small_integers(int64_t count, int64_t low, int64_t high) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(uniform(low, high));
  return values;
}

std::byte* CaseMemory::allocate(size_t bytes) {
  Result<Buffer> buffer = device_.allocate(bytes);
  BATON_CHECK(buffer.has_value(), buffer.error().message);
  return buffers_.emplace_back(std::move(*buffer)).bytes();
}

void CaseMemory::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  queue_.copy(to, from, bytes);
  const Status status = queue_.synchronize();
  BATON_CHECK(status.has_value(), status.error().message);
}

void* CaseMemory::upload(const void* data, size_t bytes) {
  // Guards of 0xff on both sides: a read past the end brings NaN.
  std::vector<std::byte> host(bytes + 2 * kGuardBytes, std::byte{0xff});
  if (bytes > 0) std::memcpy(host.data() + kGuardBytes, data, bytes);
  std::byte* at = allocate(host.size());
  copy(at, host.data(), host.size());
  return at + kGuardBytes;
}

ConstTensor CaseMemory::input(const std::vector<float>& values, const Dims& dims, Gaps gaps) {
  Tensor view = strided_view(DType::kF32, dims, gaps);
  BATON_CHECK(static_cast<int64_t>(values.size()) == view.elements());
  std::vector<float> host(static_cast<size_t>(span_of(view)), kNaN);
  size_t next = 0;
  for_each_offset(view, 0, 0, [&](int64_t at) { host[static_cast<size_t>(at)] = values[next++]; });
  view.data = upload(host.data(), host.size() * sizeof(float));
  return view;
}

ConstTensor CaseMemory::input(const std::vector<int32_t>& values, const Dims& dims) {
  Tensor view = strided_view(DType::kI32, dims, {});
  BATON_CHECK(static_cast<int64_t>(values.size()) == view.elements());
  view.data = upload(values.data(), values.size() * sizeof(int32_t));
  return view;
}

ConstTensor CaseMemory::normal_input(const Dims& dims, Gaps gaps, float scale) {
  return input(normals(strided_view(DType::kF32, dims, {}).elements(), scale), dims, gaps);
}

ConstTensor CaseMemory::stored_input(const std::vector<float>& values,
                                     const Dims& dims,
                                     DType dtype) {
  if (dtype == DType::kF32) return input(values, dims);
  std::vector<uint16_t> narrow;
  for (const float value : values) {
    narrow.push_back(dtype == DType::kBF16 ? float_to_bf16(value) : float_to_f16(value));
  }
  Tensor view = strided_view(dtype, dims, {});
  view.data = upload(narrow.data(), narrow.size() * sizeof(uint16_t));
  return view;
}

WeightView CaseMemory::weight(
    WeightForm form, int64_t rows, int64_t columns, int32_t block_rows, int32_t block_columns) {
  WeightView view{.rows = rows, .columns = columns, .form = form};
  const auto count = static_cast<size_t>(rows * columns);
  switch (form) {
    case WeightForm::kF32:
      view.data = stored_input(normals(rows * columns, 0.1F), {rows, columns}, DType::kF32).data;
      break;
    case WeightForm::kBF16:
      view.data = stored_input(normals(rows * columns, 0.1F), {rows, columns}, DType::kBF16).data;
      break;
    case WeightForm::kF16:
      view.data = stored_input(normals(rows * columns, 0.1F), {rows, columns}, DType::kF16).data;
      break;
    case WeightForm::kFp8Block: {
      std::vector<uint8_t> codes(count);
      for (uint8_t& code : codes) {
        code = static_cast<uint8_t>(random_());
        if ((code & 0x7f) == 0x7f) code = 0;  // no NaN
      }
      const int64_t blocks =
          (rows + block_rows - 1) / block_rows * ((columns + block_columns - 1) / block_columns);
      std::vector<float> scales(static_cast<size_t>(blocks));
      for (float& scale : scales) scale = 0.002F * (1.0F + std::fabs(normal()));
      view.data = upload(codes.data(), codes.size());
      view.scales = upload(scales.data(), scales.size() * sizeof(float));
      view.block_rows = block_rows;
      view.block_columns = block_columns;
      break;
    }
    case WeightForm::kNvfp4: {
      std::vector<uint8_t> pairs(count / 2);
      for (uint8_t& pair : pairs) pair = static_cast<uint8_t>(random_());
      std::vector<uint8_t> scales(count / 16);
      for (uint8_t& scale : scales) scale = static_cast<uint8_t>(uniform(0, 0x7e));
      view.data = upload(pairs.data(), pairs.size());
      view.scales = upload(scales.data(), scales.size());
      view.global_scale = 0.0013F;
      break;
    }
  }
  return view;
}

// values: span elements, or null for poison everywhere.
Tensor CaseMemory::guarded(DType dtype, const Dims& dims, Gaps gaps, const void* values) {
  Tensor view = strided_view(dtype, dims, gaps);
  const auto bytes = static_cast<size_t>(span_of(view) * dtype_bytes(dtype));
  std::vector<std::byte> host(bytes + 2 * kGuardBytes, std::byte{poison_of(dtype)});
  if (values != nullptr) std::memcpy(host.data() + kGuardBytes, values, bytes);
  std::byte* allocation = allocate(host.size());
  copy(allocation, host.data(), host.size());
  view.data = allocation + kGuardBytes;
  outputs_.push_back({view, allocation, std::move(host)});
  return view;
}

Tensor CaseMemory::output(DType dtype, const Dims& dims, Gaps gaps) {
  return guarded(dtype, dims, gaps, nullptr);
}

Tensor CaseMemory::in_out(const std::vector<float>& values, const Dims& dims, Gaps gaps) {
  const Tensor view = strided_view(DType::kF32, dims, gaps);
  BATON_CHECK(static_cast<int64_t>(values.size()) == view.elements());
  std::vector<float> host(static_cast<size_t>(span_of(view)), kNaN);
  size_t next = 0;
  for_each_offset(view, 0, 0, [&](int64_t at) { host[static_cast<size_t>(at)] = values[next++]; });
  return guarded(DType::kF32, dims, gaps, host.data());
}

uint8_t* CaseMemory::in_out_bytes(const std::vector<uint8_t>& bytes) {
  return guarded(DType::kU8, {static_cast<int64_t>(bytes.size())}, {}, bytes.data()).as<uint8_t>();
}

Tensor CaseMemory::workspace(const Dims& dims) {
  Tensor view = strided_view(DType::kF32, dims, {});
  const std::vector<float> poison(static_cast<size_t>(view.elements()), kNaN);
  view.data = upload(poison.data(), poison.size() * sizeof(float));
  return view;
}

CaseResult CaseMemory::read() {
  CaseResult result;
  for (const Output& output : outputs_) {
    std::vector<std::byte> after(output.before.size());
    copy(after.data(), output.allocation, after.size());
    CaseOutput values{.dtype = output.view.dtype, .floats = {}, .integers = {}};
    const int64_t width = dtype_bytes(output.view.dtype);
    for_each_offset(output.view, 0, 0, [&](int64_t offset) {
      const size_t at = kGuardBytes + static_cast<size_t>(offset * width);
      append_value(values, after.data() + at);
      std::memcpy(after.data() + at, output.before.data() + at, static_cast<size_t>(width));
    });
    result.guards_intact = result.guards_intact && after == output.before;
    result.outputs.push_back(std::move(values));
  }
  return result;
}

}  // namespace baton
