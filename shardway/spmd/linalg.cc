// cholesky, triangular_solve, fft: batches pass through, the transformed dimensions are replicated.
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

OpRule FftRule(const ir::Op& op) {
  return BatchRule(op, static_cast<int>(op.IntList("fft_length").size()));
}

}  // namespace shardway::spmd
