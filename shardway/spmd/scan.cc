#include "shardway/spmd/scan.h"

#include "shardway/base/status_macros.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/reduction_of.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

ir::OpKind KindOf(collective::Reduction reduction) {
  switch (reduction) {
    case collective::Reduction::kProduct:
      return ir::OpKind::kMultiply;
    case collective::Reduction::kMin:
      return ir::OpKind::kMinimum;
    case collective::Reduction::kMax:
      return ir::OpKind::kMaximum;
    case collective::Reduction::kAnd:
      return ir::OpKind::kAnd;
    case collective::Reduction::kOr:
      return ir::OpKind::kOr;
    case collective::Reduction::kXor:
      return ir::OpKind::kXor;
    default:
      return ir::OpKind::kAdd;
  }
}

absl::StatusOr<std::vector<ir::Value*>> Reduce(Emitter& e, std::vector<ir::Value*> operands,
                                               const std::vector<ir::Value*>& init,
                                               const ir::Region& body, int dim) {
  std::vector<ir::Type> types;
  for (const ir::Value* v : operands) {
    types.push_back(v->type);
    types.back().dims.erase(types.back().dims.begin() + dim);
  }
  operands.insert(operands.end(), init.begin(), init.end());
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{dim});
  ir::Op* op = e.b().Create(ir::OpKind::kReduce, operands, types, std::move(attributes));
  SHARDWAY_RETURN_IF_ERROR(CloneBody(body, e.module()->AddRegion(op), e.module()));
  return op->results;
}

// The rows of the parts before (after) this one; of the others the neutral element.
ir::Value* OnlyBefore(Emitter& e, ir::Value* totals, ir::Value* init, int dim, const AxisList& axes,
                      bool forward) {
  ir::Builder& b = e.b();
  const ir::Type at = ir::Type::Tensor(ElementType::kI32, totals->type.dims);
  ir::Value* here = b.BroadcastInDim(e.Coordinate(axes), at.dims, {});
  ir::Value* before = b.Compare(forward ? "LT" : "GT", b.Iota(at, dim), here);
  return b.Select(before, totals, b.BroadcastInDim(init, totals->type.dims, {}));
}

// A row of rank r − 1 as often as `like` has rows along `dim`.
ir::Value* Repeat(ir::Builder& b, ir::Value* row, const ir::Type& like, int dim) {
  std::vector<int64_t> dims;
  for (int d = 0; d < like.rank(); ++d) {
    if (d != dim) dims.push_back(d);
  }
  return b.BroadcastInDim(row, like.dims, dims);
}

}  // namespace

LocalResults JoinScans(Emitter& e, const std::vector<ir::Value*>& scans,
                       const std::vector<ir::Value*>& init, const ir::Region& body, int dim,
                       const AxisList& axes, bool forward) {
  ir::Builder& b = e.b();
  std::vector<ir::Value*> totals;
  for (size_t i = 0; i < scans.size(); ++i) {
    const ir::Type& type = scans[i]->type;
    std::vector<int64_t> starts(type.rank());
    std::vector<int64_t> limits(type.dims.begin(), type.dims.end());
    starts[dim] = forward ? type.dims[dim] - 1 : 0;
    limits[dim] = starts[dim] + 1;
    ir::Value* gathered = e.AllGather(b.Slice(scans[i], starts, limits), dim, axes);
    totals.push_back(OnlyBefore(e, gathered, init[i], dim, axes, forward));
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> before, Reduce(e, totals, init, body, dim));
  std::vector<ir::Value*> repeated;
  for (size_t i = 0; i < scans.size(); ++i) {
    repeated.push_back(Repeat(b, before[i], scans[i]->type, dim));
  }
  if (const auto known = ReductionOf(body); known != collective::Reduction::kNone) {
    return std::vector<ir::Value*>{b.Binary(KindOf(known), repeated[0], scans[0])};
  }
  // Any other body: side by side along a dimension of its own, and reduced along that.
  std::vector<ir::Value*> pairs;
  for (size_t i = 0; i < scans.size(); ++i) {
    std::vector<int64_t> dims = {1};
    dims.insert(dims.end(), scans[i]->type.dims.begin(), scans[i]->type.dims.end());
    ir::Value* first = b.Reshape(forward ? repeated[i] : scans[i], dims);
    ir::Value* second = b.Reshape(forward ? scans[i] : repeated[i], dims);
    pairs.push_back(b.Concatenate({first, second}, 0));
  }
  return Reduce(e, std::move(pairs), init, body, 0);
}

double ScanCost(const ir::Type& type, const Sharding& sharding, int dim, const Mesh& mesh) {
  if (sharding.dims[dim].empty()) return 0;
  ir::Type rows = sharding::LocalType(type, sharding, mesh);
  const int64_t parts = mesh.SizeOf(sharding.dims[dim]);
  rows.dims[dim] = parts;
  return CostOver({kPermutePrice, GatherBytes(static_cast<double>(rows.num_bytes()), parts)}, mesh,
                  sharding.dims[dim]);
}

}  // namespace shardway::spmd
