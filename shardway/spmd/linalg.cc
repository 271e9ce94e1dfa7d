// cholesky, triangular_solve: batches pass through, and so do the right-hand sides of a solve;
// the dimensions that are worked on are replicated;
// axes that split those are moved to a batch dimension where there is one (compute_sharding.h).
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// The last `n` dimensions are worked on, the others are a batch.
OpRule BatchRule(const ir::Op& op, int n) {
  OpRule rule;
  const ir::Type& shape = op.result()->type;
  TensorFactors batch;
  for (int d = 0; d < shape.rank() - n; ++d) batch.push_back({rule.AddFactor(shape.dims[d])});
  auto of = [&](const ir::Value* v) {
    TensorFactors tensor = batch;
    for (int d = v->type.rank() - n; d < v->type.rank(); ++d) {
      tensor.push_back({rule.AddFactor(v->type.dims[d], Factor::Kind::kReplicated)});
    }
    return tensor;
  };
  for (const ir::Value* v : op.operands) rule.operands.push_back(of(v));
  for (const ir::Value* v : op.results) rule.results.push_back(of(v));
  return rule;
}

}  // namespace

OpRule BatchedLinalgRule(const ir::Op& op) { return BatchRule(op, 2); }

// op(a) x = b, or x op(a) = b: every column (row) of b is a problem of its own.
OpRule TriangularSolveRule(const ir::Op& op) {
  OpRule rule = BatchRule(op, 2);
  const int rank = op.result()->type.rank();
  const int free = op.Bool("left_side") ? rank - 1 : rank - 2;
  const int f = rule.AddFactor(op.result()->type.dims[free]);
  rule.operands[1][free] = rule.results[0][free] = {f};
  return rule;
}

}  // namespace shardway::spmd
