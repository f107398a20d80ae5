#include "kernels/composition.h"
#include "kernels/reference/ops.h"
#include "kernels/tables.h"

namespace baton::reference {

void index_select(Queue& queue, const IndexSelectArgs& args) {
  compose_index_select(reference_kernels(), queue, args);
}

void moe(Queue& queue, const MoeArgs& args) {
  compose_moe(reference_kernels(), queue, args);
}

}  // namespace baton::reference
