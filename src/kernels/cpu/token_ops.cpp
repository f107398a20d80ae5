// The ops that treat each token (or row) for itself.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/reference/ops.h"

namespace baton::cpu {
namespace {

// visit(row) for each of `count` rows of n values.
template <typename Visit>
void for_rows(Queue& queue, int64_t count, int64_t n, const Visit& visit) {
  cpu_queue(queue).threads().parallel_for(
      count, grain_for(count, static_cast<double>(n) / 4.0), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) visit(r);
      });
}

const float* row_of(const ConstTensor& t, int64_t r) {
  return t.as<float>() + r * t.stride(0);
}
float* row_of(const Tensor& t, int64_t r) {
  return t.as<float>() + r * t.stride(0);
}

// Row r of a tensor as a tensor of one row.
template <typename View>
View one_row(View t, int64_t r) {
  using Byte = std::conditional_t<std::is_same_v<View, Tensor>, std::byte, const std::byte>;
  t.data = static_cast<Byte*>(t.data) + r * t.stride(0) * dtype_bytes(t.dtype);
  t.dims[0] = 1;
  return t;
}

// Token t as a batch of its own.
BatchLayout one_token(const BatchLayout& batch, int64_t t) {
  BatchLayout one = batch;
  one.positions = one_row(batch.positions, t);
  one.sequence_of = one_row(batch.sequence_of, t);
  return one;
}

}  // namespace

void embed(const Microkernels& kernels, Queue& queue, const EmbedArgs& args) {
  const WeightView& table = args.table;
  const DType dtype = table.form == WeightForm::kF32    ? DType::kF32
                      : table.form == WeightForm::kBF16 ? DType::kBF16
                                                        : DType::kF16;
  const auto* ids = args.token_ids.as<int32_t>();
  for_rows(queue, args.out.dim(0), table.columns, [&](int64_t t) {
    BATON_CHECK(ids[t] >= 0 && ids[t] < table.rows, ids[t], table.rows);
    const auto* row =
        static_cast<const std::byte*>(table.data) + ids[t] * table.columns * dtype_bytes(dtype);
    kernels.widen(row, dtype, table.columns, 1.0F, row_of(args.out, t));
  });
}

void rms_norm(const Microkernels& kernels, Queue& queue, const RmsNormArgs& args) {
  const int64_t n = args.x.dim(1);
  BATON_CHECK(args.weight.dim(0) == n && args.out.dim(1) == n, args.weight.dim(0), n);
  for_rows(queue, args.x.dim(0), n, [&](int64_t r) {
    kernels.rms_norm(
        row_of(args.x, r), args.weight.as<float>(), n, args.epsilon, row_of(args.out, r));
  });
}

void layer_norm(const Microkernels&, Queue& queue, const LayerNormArgs& args) {
  for_rows(queue, args.x.dim(0), 12 * args.x.dim(1), [&](int64_t r) {
    LayerNormArgs one = args;
    one.x = one_row(args.x, r);
    one.out = one_row(args.out, r);
    reference::layer_norm(queue, one);
  });
}

void gather_rows(const Microkernels&, Queue& queue, const GatherRowsArgs& args) {
  for_rows(queue, args.out.dim(0), args.out.dim(1), [&](int64_t r) {
    reference::gather_rows(queue, {args.x, one_row(args.rows, r), one_row(args.out, r)});
  });
}

void store_latent(const Microkernels&, Queue& queue, const StoreLatentArgs& args) {
  for_rows(queue, args.latent.dim(0), 4 * args.latent.dim(1), [&](int64_t t) {
    const BatchLayout batch = one_token(args.batch, t);
    reference::store_latent(queue,
                            {one_row(args.latent, t), one_row(args.rope, t), batch, args.cache});
  });
}

void store_index_keys(const Microkernels&, Queue& queue, const StoreIndexKeysArgs& args) {
  for_rows(queue, args.keys.dim(0), 4 * args.keys.dim(1), [&](int64_t t) {
    const BatchLayout batch = one_token(args.batch, t);
    reference::store_index_keys(queue, {one_row(args.keys, t), batch, args.cache});
  });
}

void store_plain(const Microkernels&, Queue& queue, const StorePlainArgs& args) {
  for_rows(queue, args.keys.dim(0), 8 * args.keys.dim(1), [&](int64_t t) {
    const BatchLayout batch = one_token(args.batch, t);
    reference::store_plain(queue,
                           {one_row(args.keys, t), one_row(args.values, t), batch, args.cache});
  });
}

void rope(const Microkernels&, Queue& queue, const RopeArgs& args) {
  for_rows(
      queue, args.x.dim(0), 40 * args.x.dim(2) + args.x.dim(1) * args.x.dim(2), [&](int64_t t) {
        RopeArgs one = args;
        one.x = one_row(args.x, t);
        one.positions = one_row(args.positions, t);
        reference::rope(queue, one);
      });
}

void silu_mul(const Microkernels& kernels, Queue& queue, const SiluMulArgs& args) {
  const int64_t n = args.out.dim(1);
  for_rows(queue, args.out.dim(0), n, [&](int64_t t) {
    kernels.silu_mul(row_of(args.gate, t), row_of(args.up, t), n, row_of(args.out, t));
  });
}

void add(const Microkernels&, Queue& queue, const AddArgs& args) {
  for_rows(queue, args.out.dim(0), args.out.dim(1), [&](int64_t t) {
    const float* x = row_of(args.x, t);
    float* out = row_of(args.out, t);
    for (int64_t i = 0; i < args.out.dim(1); ++i) out[i] += x[i];
  });
}

void argmax(const Microkernels&, Queue& queue, const ArgmaxArgs& args) {
  for_rows(queue, args.logits.dim(0), 4 * args.logits.dim(1), [&](int64_t r) {
    reference::argmax(queue, {one_row(args.logits, r), one_row(args.out, r)});
  });
}

}  // namespace baton::cpu
