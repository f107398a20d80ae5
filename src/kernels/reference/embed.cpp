#include "kernels/reference/ops.h"
#include "kernels/reference/weights.h"

namespace baton::reference {

void embed(Queue&, const EmbedArgs& args) {
  BATON_CHECK(args.out.dim(1) == args.table.columns, args.out.dim(1), args.table.columns);
  const auto* ids = args.token_ids.as<int32_t>();
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    expand_row(args.table, ids[t], args.out.as<float>() + t * args.out.stride(0));
  }
}

}  // namespace baton::reference
