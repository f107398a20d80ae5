// The wide ops as compositions of the simple ones of a table: what every table has until it
// brings its own. Data that decides the composition (expert ids) is read by the host, so it is
// for tables that run on host memory.
#pragma once

#include "kernels/kernels.h"

namespace baton {

// index_scores and select_top_k of `table`, in groups of args.scores.dim(0) tokens.
void compose_index_select(const KernelTable& table, Queue& queue, const IndexSelectArgs& args);

// Expert by expert in ascending order: the rows that chose it are gathered, so that each
// expert's matrices are read once per call.
void compose_moe(const KernelTable& table, Queue& queue, const MoeArgs& args);

}  // namespace baton
