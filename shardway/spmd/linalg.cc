// cholesky, triangular_solve, fft: batches pass through, and so do the right-hand sides of a solve;
// the dimensions that are worked on are replicated;
// axes that split those are moved to a batch dimension where there is one (compute_sharding.h).
#include "shardway/base/status_macros.h"
#include "shardway/ir/attribute.h"
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

ir::Value* InRowMajor(ir::Builder& b, ir::Value* x) {
  std::vector<int64_t> minor_to_major;
  for (int d = x->type.rank(); d-- > 0;) minor_to_major.push_back(d);
  const auto layouts =
      std::make_shared<const ir::AttrArray>(ir::AttrArray{std::move(minor_to_major)});
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string("LayoutConstraint"));
  ir::Set(attributes, "operand_layouts", layouts);
  ir::Set(attributes, "result_layouts", layouts);
  return b.Create(ir::OpKind::kCustomCall, {&x, 1}, {&x->type, 1}, std::move(attributes))->result();
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

OpRule FftRule(const ir::Op& op) {
  return BatchRule(op, static_cast<int>(op.IntList("fft_length").size()));
}

LocalResults EmitFft(LocalOp& local) {
  if (local.e.backend() != Backend::kNative) return EmitAsIs(local);
  // XLA lays out what its collectives take and return as suits them, and passes that on; its fft
  // takes nothing but row-major.
  local.operands[0] = InRowMajor(local.e.b(), local.operands[0]);
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, EmitAsIs(local));
  results[0] = InRowMajor(local.e.b(), results[0]);
  return results;
}

}  // namespace shardway::spmd
