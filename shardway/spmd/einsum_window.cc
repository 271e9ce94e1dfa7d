#include "shardway/spmd/einsum_window.h"

#include <algorithm>

#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

void AddUsers(const ir::Region& region, Users& users) {
  for (ir::Op* op : region.ops) {
    for (const ir::Value* v : op->operands) users[v].push_back(op);
    for (const ir::Region* inner : op->regions) AddUsers(*inner, users);
  }
}

// The atoms that the groups run over; nullopt for groups that are no axes of the mesh, or span
// replicas.
std::optional<AxisList> AxesOf(const collective::Groups& groups, const Mesh& mesh) {
  if (!groups.lists.empty() || groups.axes.empty()) return std::nullopt;
  std::vector<sharding::Stride> strides;
  for (int axis : groups.axes) {
    int64_t stride = 1;
    for (size_t i = axis + 1; i < groups.mesh.size(); ++i) stride *= groups.mesh[i];
    if (stride * groups.mesh[axis] > mesh.num_devices()) return std::nullopt;
    strides.push_back({groups.mesh[axis], stride});
  }
  std::optional<AxisList> axes = mesh.AtomsOf(strides);
  if (axes && mesh.SizeOf(*axes) < 2) return std::nullopt;
  return axes;
}

TiledLoop LoopOf(const ir::Op& dot, const TensorFactors& tensor, int dim) {
  const OpRule rule = DotGeneralRule(dot);
  const int factor = tensor[dim][0];
  const auto find = [&](const TensorFactors& factors) {
    for (size_t d = 0; d < factors.size(); ++d) {
      if (factors[d][0] == factor) return static_cast<int>(d);
    }
    return -1;
  };
  return {{find(rule.operands[0]), find(rule.operands[1])}, find(rule.results[0])};
}

// Whether `op` can be computed of tiles along dimension `dim` of its operand `from`, which becomes
// the dimension returned. A slice or a pad may only take away or add at the end of that dimension:
// `size` is then the smaller size.
std::optional<int> Through(const ir::Op& op, const ir::Value* from, int dim, int64_t& size) {
  switch (op.kind) {
    case ir::OpKind::kConvert:
      return dim;
    case ir::OpKind::kTranspose: {
      const auto& order = op.IntList("permutation");
      return static_cast<int>(std::find(order.begin(), order.end(), dim) - order.begin());
    }
    case ir::OpKind::kSelect:
      return op.operand(1) == from && op.operand(0) != from && op.operand(2) != from &&
                     op.operand(0)->type.rank() == from->type.rank()
                 ? std::optional(dim)
                 : std::nullopt;
    case ir::OpKind::kSlice:
    case ir::OpKind::kPad: {
      const bool slice = op.kind == ir::OpKind::kSlice;
      const auto& low = op.IntList(slice ? "start_indices" : "edge_padding_low");
      const auto& apart = op.IntList(slice ? "strides" : "interior_padding");
      const ir::Type& result = op.result()->type;
      for (int d = 0; d < result.rank(); ++d) {
        if (low[d] != 0 || apart[d] != (slice ? 1 : 0)) return std::nullopt;
        if (d != dim && result.dims[d] != from->type.dims[d]) return std::nullopt;
      }
      const int64_t larger = slice ? from->type.dims[dim] : result.dims[dim];
      const int64_t smaller = slice ? result.dims[dim] : from->type.dims[dim];
      if (op.operand(0) != from || smaller > larger) return std::nullopt;
      size = smaller;
      return dim;
    }
    default:
      return std::nullopt;
  }
}

class GatherFinder {
 public:
  GatherFinder(GatherWindow& window, const Users& users, const Emitter& e)
      : window_(window), users_(users), e_(e) {}

  // Follows `v`, whose dimension `dim` is the gathered one, to all its uses; false where one of
  // them is something else than a dot_general.
  bool Follow(const ir::Value* v, int dim, int64_t size) {
    const auto uses = users_.find(v);
    if (uses == users_.end()) return false;
    for (ir::Op* user : uses->second) {
      if (user->parent != window_.gather->parent) return false;
      if (user->kind == ir::OpKind::kDotGeneral) {
        if (!AddDot(user, v, dim, size)) return false;
        continue;
      }
      int64_t cut = size;
      const auto next = Through(*user, v, dim, cut);
      if (!next || user->kind == ir::OpKind::kPad) return false;
      if (user->kind == ir::OpKind::kSlice &&
          size != window_.gather->result()->type.dims[window_.dim])
        return false;
      steps_.push_back({user, dim});
      const bool good = Follow(user->result(), *next, cut);
      steps_.pop_back();
      if (!good) return false;
    }
    return true;
  }

 private:
  bool AddDot(ir::Op* dot, const ir::Value* v, int dim, int64_t size) {
    const int side = dot->operand(0) == v ? 0 : 1;
    for (const DotOfGather& other : window_.dots) {
      if (other.dot == dot) return false;  // both operands
    }
    if (!window_.dots.empty() && size != window_.size) return false;
    window_.size = size;
    const OpRule rule = DotGeneralRule(*dot);
    const TiledLoop loop = LoopOf(*dot, rule.operands[side], dim);
    const bool alike = (sharding::ToSet(window_.axes) & ~e_.DistinctOver(*dot)) != 0;
    if (loop.contracting() && alike) return false;
    window_.dots.push_back({dot, side, steps_, loop});
    return true;
  }

  GatherWindow& window_;
  const Users& users_;
  const Emitter& e_;
  std::vector<TileStep> steps_;
};

}  // namespace

Users UsersOf(const ir::Region& region) {
  Users users;
  AddUsers(region, users);
  return users;
}

std::optional<GatherWindow> FindGatherWindow(ir::Op* gather, const collective::Spec& spec,
                                             const Users& users, const Emitter& e) {
  if (spec.kind != collective::Kind::kAllGather || gather->operands.size() != 1)
    return std::nullopt;
  auto axes = AxesOf(spec.groups, e.mesh());
  if (!axes) return std::nullopt;
  const int dim = static_cast<int>(spec.dim0);
  GatherWindow window{gather, dim, gather->result()->type.dims[dim], *std::move(axes), {}};
  if (window.size == 0) return std::nullopt;
  if (!GatherFinder(window, users, e).Follow(gather->result(), dim, window.size))
    return std::nullopt;
  return window;
}

std::optional<ScatterWindow> FindScatterWindow(ir::Op* scatter, const collective::Spec& spec,
                                               const Users& users, const Mesh& mesh) {
  if (spec.kind != collective::Kind::kReduceScatter || scatter->operands.size() != 1 ||
      spec.reduction != collective::Reduction::kSum) {
    return std::nullopt;
  }
  auto axes = AxesOf(spec.groups, mesh);
  if (!axes) return std::nullopt;
  // Upwards while there is one use, to the dot_general.
  std::vector<const ir::Op*> between;
  const ir::Value* v = scatter->operand(0);
  for (;;) {
    const auto uses = users.find(v);
    if (uses == users.end() || uses->second.size() != 1 || v->def == nullptr ||
        v->def->parent != scatter->parent) {
      return std::nullopt;
    }
    if (v->def->kind == ir::OpKind::kDotGeneral) break;
    if (v->def->kind != ir::OpKind::kConvert && v->def->kind != ir::OpKind::kTranspose &&
        v->def->kind != ir::OpKind::kPad) {
      return std::nullopt;
    }
    between.push_back(v->def);
    v = v->def->operand(0);
  }
  ScatterWindow window{scatter, static_cast<int>(spec.dim0), 0, *std::move(axes), v->def, {}, {}};
  // The dimension, upwards again; then downwards to see whether every operator lets it through.
  int dim = window.dim;
  for (const ir::Op* op : between) {
    if (op->kind == ir::OpKind::kTranspose) dim = static_cast<int>(op->IntList("permutation")[dim]);
  }
  window.loop = LoopOf(*window.dot, DotGeneralRule(*window.dot).results[0], dim);
  window.size = v->type.dims[dim];
  if (window.size == 0) return std::nullopt;
  bool padded = false;
  for (size_t i = between.size(); i-- > 0;) {
    int64_t size = 0;
    const auto next = Through(*between[i], between[i]->operand(0), dim, size);
    const bool pads = between[i]->kind == ir::OpKind::kPad;
    if (!next || (pads && padded)) return std::nullopt;
    padded |= pads;
    window.steps.push_back({between[i], dim});
    dim = *next;
  }
  return window;
}

}  // namespace shardway::spmd
