#include "shardway/spmd/combine_partials.h"

#include <algorithm>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/pack.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

double Gathered(double bytes, const Mesh& mesh, const AxisList& axes) {
  const auto others = static_cast<double>(mesh.SizeOf(axes) - 1);
  return CostOver({kCollectivePrice, bytes * others}, mesh, axes);
}
double Scattered(double bytes, const Mesh& mesh, const AxisList& axes, bool to_split) {
  const Traffic exchange = {kCollectivePrice, GatherBytes(bytes, mesh.SizeOf(axes))};
  return CostOver(to_split ? exchange : 2 * exchange, mesh, axes);
}

ir::Value* WithNewMajor(ir::Builder& b, ir::Value* x) {
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), x->type.dims.begin(), x->type.dims.end());
  return b.Reshape(x, dims);
}

// All of `values` through one collective where they can be packed: `move` maps a tensor whose
// dimensions begin with [1, packed], its result has the parts in dimension 0.
template <typename Move>
std::vector<ir::Value*> Together(ir::Builder& b, const std::vector<ir::Value*>& values,
                                 const Move& move) {
  if (ir::Value* packed = Pack(b, values)) {
    std::vector<ElementType> elements;
    elements.reserve(values.size());
    for (const ir::Value* v : values) elements.push_back(v->type.element);
    return Unpack(b, move(WithNewMajor(b, packed)), 1, elements);
  }
  std::vector<ir::Value*> moved;
  for (ir::Value* v : values) {
    const ElementType element[] = {v->type.element};
    moved.push_back(Unpack(b, move(WithNewMajor(b, WithNewMajor(b, v))), 1, element)[0]);
  }
  return moved;
}

LocalResults ReduceParts(LocalOp& local, std::vector<ir::Value*> parts) {
  std::vector<ir::Type> types;
  for (const ir::Value* v : parts) {
    ir::Dims dims(v->type.dims.begin() + 1, v->type.dims.end());
    types.push_back(ir::Type::Tensor(v->type.element, dims));
  }
  const size_t n = parts.size();
  for (size_t i = 0; i < n; ++i) parts.push_back(local.operands[n + i]);
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  ir::Op* op = local.e.b().Create(ir::OpKind::kReduce, parts, types, std::move(attributes));
  SHARDWAY_RETURN_IF_ERROR(
      CloneBody(*local.op.regions[0], local.e.module()->AddRegion(op), local.e.module()));
  return op->results;
}

}  // namespace

double CombineByBodyCost(double bytes, const Mesh& mesh, const AxisList& axes, bool to_split) {
  return std::min(Gathered(bytes, mesh, axes), Scattered(bytes, mesh, axes, to_split));
}

int ScatteredDim(const ir::Type& whole, const Sharding& from, const Sharding& to,
                 const AxisList& axes, const Mesh& mesh) {
  for (int d = 0; d < from.rank(); ++d) {
    AxisList longer = from.dims[d];
    longer.insert(longer.end(), axes.begin(), axes.end());
    const bool even = whole.dims[d] % mesh.SizeOf(longer) == 0;
    if (to.dims[d] == longer && (even || from.dims[d].empty())) return d;
  }
  return -1;
}

LocalResults CombineByBody(LocalOp& local, std::vector<ir::Value*> partial, const AxisList& axes) {
  Emitter& e = local.e;
  ir::Builder& b = e.b();
  const int64_t n = e.mesh().SizeOf(axes);
  const ir::Type& whole = local.op.result()->type;
  double bytes = 0;
  for (const ir::Value* v : partial) bytes += static_cast<double>(v->type.num_bytes());

  int dim = -1;
  bool to_split = true;
  for (size_t i = 0; i < partial.size() && to_split; ++i) {
    const int d = ScatteredDim(whole, local.result_shardings[i], local.wanted[i], axes, e.mesh());
    to_split = d >= 0 && (i == 0 || d == dim);
    dim = d;
  }
  if (!to_split) {  // the longest dimension, for the way there and back
    dim = -1;
    for (int d = 0; d < whole.rank(); ++d) {
      if (dim < 0 || partial[0]->type.dims[d] > partial[0]->type.dims[dim]) dim = d;
    }
  }
  if (dim < 0 || Scattered(bytes, e.mesh(), axes, to_split) >= Gathered(bytes, e.mesh(), axes)) {
    return ReduceParts(local,
                       Together(b, partial, [&](ir::Value* x) { return e.AllGather(x, 0, axes); }));
  }
  const int64_t size = partial[0]->type.dims[dim];
  const int64_t part = sharding::CeilDiv(size, n);
  std::vector<int64_t> none(whole.rank()), more(whole.rank());
  more[dim] = part * n - size;
  if (more[dim] > 0) {
    for (ir::Value*& v : partial)
      v = b.Pad(v, b.SplatInt(ir::Type::Scalar(v->type.element), 0), none, more);
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                            ReduceParts(local, Together(b, partial, [&](ir::Value* x) {
                                          return e.AllToAll(x, dim + 2, 0, axes);
                                        })));
  if (to_split) {
    for (Sharding& sharding : local.result_shardings)
      sharding.dims[dim].insert(sharding.dims[dim].end(), axes.begin(), axes.end());
    return results;
  }
  results = Together(b, results, [&](ir::Value* x) { return e.AllGather(x, dim + 2, axes); });
  for (ir::Value*& v : results) {
    // Together leaves the dimension that the parts are in.
    std::vector<int64_t> dims(v->type.dims.begin() + 1, v->type.dims.end());
    v = b.Reshape(v, dims);
    if (more[dim] == 0) continue;
    dims[dim] = size;
    v = b.Slice(v, none, dims);
  }
  return results;
}

}  // namespace shardway::spmd
