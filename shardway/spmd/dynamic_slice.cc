// dynamic_slice, dynamic_update_slice. Dimensions taken in full pass through; their start is 0
// whatever the index says (StableHLO clamps it there). Along the others:
//
//   slice    every device gives what it holds of the window, and nothing elsewhere: a sum
//   update   passes through: every device writes what falls into its tile; it has the whole update
//
// A window lies in the whole, so what is read or kept is never padding.
#include "shardway/spmd/dynamic_window.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using collective::Reduction;
using ir::OpKind;
using Kind = Factor::Kind;

// The start along each dimension, i32, counted from this device's tile. Clamped in any case: XLA
// adds the starts of a slice of a slice (ours of a user's), which is right only within bounds.
std::vector<ir::Value*> LocalStarts(LocalOp& local, size_t first, const ir::Type& window) {
  const ir::Type& whole = local.op.operand(0)->type;
  const Sharding& sharding = local.operand_shardings[0];
  std::vector<ir::Value*> starts(local.operands.begin() + first, local.operands.end());
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole.dims[d] == window.dims[d]) {
      starts[d] = local.e.b().SplatInt(ir::Type::Scalar(ElementType::kI32), 0);
      continue;
    }
    starts[d] = ClampedStart(local.e, starts[d], whole.dims[d], window.dims[d]);
    if (sharding.dims[d].empty()) continue;
    starts[d] = LocalStart(local.e, starts[d], local.operands[0]->type.dims[d], sharding.dims[d]);
  }
  return starts;
}

bool CutsSplit(const LocalOp& local, const ir::Type& window, int d) {
  return !local.operand_shardings[0].dims[d].empty() &&
         local.op.operand(0)->type.dims[d] != window.dims[d];
}

}  // namespace

OpRule DynamicSliceRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  rule.combine = to.element == ElementType::kI1 ? Reduction::kOr : Reduction::kSum;
  TensorFactors operand(from.rank());
  TensorFactors result(from.rank());
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dims[d] == to.dims[d]) {
      operand[d] = result[d] = {rule.AddFactor(from.dims[d])};
    } else {
      operand[d] = {rule.AddFactor(from.dims[d], Kind::kReduction)};
      result[d] = {rule.AddFactor(to.dims[d], Kind::kReplicated)};
    }
  }
  rule.operands.resize(op.operands.size());
  rule.operands[0] = std::move(operand);
  rule.results = {std::move(result)};
  return rule;
}

LocalResults EmitDynamicSlice(LocalOp& local) {
  ir::Builder& b = local.e.b();
  const ir::Type& window = local.op.result()->type;
  std::vector<ir::Value*> starts = LocalStarts(local, 1, window);
  // First what needs no care, so that the rest touches little.
  ir::Value* x = local.operands[0];
  std::vector<int64_t> sizes(local.result_types[0].dims.begin(), local.result_types[0].dims.end());
  std::vector<ir::Value*> plain = starts;
  for (int d = 0; d < window.rank(); ++d) {
    if (!CutsSplit(local, window, d)) continue;
    sizes[d] = x->type.dims[d];
    plain[d] = b.SplatInt(starts[d]->type, 0);
  }
  if (!plain.empty()) x = b.DynamicSlice(x, plain, sizes);
  ir::Value* fill = NeutralOfSum(b, ir::Type::Scalar(window.element));
  for (int d = 0; d < window.rank(); ++d) {
    if (CutsSplit(local, window, d)) x = WindowOrFill(b, x, d, starts[d], window.dims[d], fill);
  }
  return std::vector<ir::Value*>{x};
}

OpRule DynamicUpdateSliceRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& whole = op.operand(0)->type;
  const ir::Type& part = op.operand(1)->type;
  TensorFactors operand(whole.rank());
  TensorFactors update(whole.rank());
  for (int d = 0; d < whole.rank(); ++d) {
    operand[d] = update[d] = {rule.AddFactor(whole.dims[d])};
    if (whole.dims[d] != part.dims[d])
      update[d] = {rule.AddFactor(part.dims[d], Kind::kReplicated)};
  }
  rule.operands.resize(op.operands.size());
  rule.operands[0] = operand;
  rule.operands[1] = std::move(update);
  rule.results = {std::move(operand)};
  return rule;
}

LocalResults EmitDynamicUpdateSlice(LocalOp& local) {
  ir::Builder& b = local.e.b();
  const ir::Type& window = local.op.operand(1)->type;
  ir::Value* x = local.operands[0];
  ir::Value* update = local.operands[1];
  std::vector<ir::Value*> starts = LocalStarts(local, 2, window);
  // Of the tile, a box that holds all of the window that the tile does: read, mixed, written back.
  ir::Value* fill = b.SplatInt(ir::Type::Scalar(update->type.element), 0);
  std::vector<ir::Value*> box = starts;
  std::vector<ir::Value*> into_update(window.rank(), nullptr);  // where the box begins in it
  for (int d = 0; d < window.rank(); ++d) {
    if (!CutsSplit(local, window, d)) continue;
    const int64_t size = std::min(window.dims[d], x->type.dims[d]);
    const ir::Type& i32 = starts[d]->type;
    box[d] = b.Clamp(b.SplatInt(i32, 0), starts[d], b.SplatInt(i32, x->type.dims[d] - size));
    into_update[d] = b.Binary(OpKind::kSubtract, box[d], starts[d]);
    update = WindowOrFill(b, update, d, into_update[d], size, fill);
  }
  ir::Value* written = nullptr;  // i1 over the box
  for (int d = 0; d < window.rank(); ++d) {
    if (into_update[d] == nullptr) continue;
    const ir::Type places = ir::Type::Tensor(ElementType::kI32, update->type.dims);
    ir::Value* place = b.Binary(OpKind::kAdd, b.Iota(places, d),
                                b.BroadcastInDim(into_update[d], places.dims, {}));
    ir::Value* inside = b.Binary(OpKind::kAnd, b.Compare("GE", place, b.SplatInt(places, 0)),
                                 b.Compare("LT", place, b.SplatInt(places, window.dims[d])));
    written = written == nullptr ? inside : b.Binary(OpKind::kAnd, written, inside);
  }
  if (written != nullptr) {
    update = b.Select(written, update, b.DynamicSlice(x, box, update->type.dims));
  }
  return std::vector<ir::Value*>{box.empty() ? update : b.DynamicUpdateSlice(x, update, box)};
}

}  // namespace shardway::spmd
