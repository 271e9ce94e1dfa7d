#include "shardway/spmd/island_steps.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/replace_uses.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

using collective::Kind;
using sharding::ToSet;

// Of `axes`, in their order: those that are dearer than the others, and the others.
struct Split {
  Split(const Mesh& mesh, const AxisList& axes) {
    const AxisSet dearest = mesh.DearestOf(ToSet(axes));
    for (uint8_t a : axes) (sharding::Contains(dearest, a) ? far : near).push_back(a);
  }
  bool crosses() const { return !far.empty(); }
  AxisList near, far;
};

// What one call takes, of which `whole` are a sum's operand, or a gather's result.
double OneCall(const Mesh& mesh, Kind kind, double whole, AxisSet axes) {
  const int64_t n = mesh.SizeOf(axes);
  const double sent = kind == Kind::kAllReduce ? AllReduceBytes(whole, n) : GatherBytes(whole, n);
  return CostOver({kCollectivePrice, sent}, mesh, axes) + kCopyPrice * whole;
}

double InSteps(const Mesh& mesh, Kind kind, double whole, const Split& split) {
  const double part = whole / static_cast<double>(mesh.SizeOf(split.near));
  // A sum scatters and gathers; a gather or a scattered sum is put in another order once.
  const double near = OneCall(mesh, Kind::kAllGather, whole, ToSet(split.near));
  const double rest = kind == Kind::kAllReduce ? near : kCopyPrice * whole;
  return near + rest + OneCall(mesh, kind, part, ToSet(split.far));
}

double CheaperWay(const Mesh& mesh, Kind kind, double whole, AxisSet axes) {
  const double one = OneCall(mesh, kind, whole, axes);
  if (mesh.DearestOf(axes) == 0) return one;
  return std::min(one, InSteps(mesh, kind, whole, Split(mesh, mesh.ToList(axes))));
}

class Pass {
 public:
  Pass(Emitter& emitter, IslandSteps when) : emitter_(emitter), mesh_(emitter.mesh()) {
    for (const CollectiveCall& call : emitter.calls()) {
      const Kind kind = call.spec.kind;
      if (kind != Kind::kAllReduce && kind != Kind::kAllGather && kind != Kind::kReduceScatter) {
        continue;
      }
      const std::optional<AxisList> axes = AxesOf(call.spec.groups);
      if (!axes) continue;
      const Split split(mesh_, *axes);
      if (!split.crosses()) continue;
      double whole = 0;
      for (const auto& shaped : kind == Kind::kAllGather ? call.spec.results : call.spec.operands) {
        whole += static_cast<double>(shaped.num_bytes());
      }
      if (when == IslandSteps::kAlways ||
          InSteps(mesh_, kind, whole, split) < OneCall(mesh_, kind, whole, ToSet(*axes))) {
        calls_.emplace(call.op,
                       Call{kind, call.spec.reduction, call.spec.dim0, *axes, split, call.cause});
      }
    }
  }
  bool empty() const { return calls_.empty(); }

  void Visit(ir::Region* region) {
    std::vector<ir::Op*> ops;
    for (ir::Op* op : region->ops) {
      for (ir::Region* inner : op->regions) Visit(inner);
      const auto call = calls_.find(op);
      if (call == calls_.end()) {
        ops.push_back(op);
        continue;
      }
      Write(*op, call->second);
      for (ir::Op* made : scratch_.ops) made->parent = region;
      ops.insert(ops.end(), scratch_.ops.begin(), scratch_.ops.end());
      scratch_.ops.clear();
    }
    region->ops = std::move(ops);
  }

  const absl::flat_hash_map<const ir::Value*, ir::Value*>& replaced() const { return replaced_; }

 private:
  struct Call {
    Kind kind;
    collective::Reduction reduction;
    int64_t dim;  // of a gather or a scattered sum
    AxisList axes;
    Split split;
    Cause cause;
  };
  using Values = std::vector<ir::Value*>;

  // The axes that the groups run over; nullopt for other groups, and for those of replicas.
  std::optional<AxisList> AxesOf(const collective::Groups& groups) const {
    if (!groups.lists.empty()) return std::nullopt;
    std::vector<sharding::Stride> strides;
    for (int axis : groups.axes) {
      int64_t stride = 1;
      for (size_t minor = axis + 1; minor < groups.mesh.size(); ++minor)
        stride *= groups.mesh[minor];
      strides.push_back({groups.mesh[axis], stride});
    }
    return mesh_.AtomsOf(strides);
  }

  // `values` through one collective, along their first dimension.
  Values Step(Kind kind, const Call& call, const AxisList& axes, const Values& values) {
    collective::Spec spec;
    spec.kind = kind;
    if (kind != Kind::kAllGather) spec.reduction = call.reduction;
    spec.groups = emitter_.GroupsOver(axes);
    const int64_t n = mesh_.SizeOf(axes);
    std::vector<ir::Type> types;
    for (const ir::Value* v : values) {
      types.push_back(v->type);
      if (kind == Kind::kReduceScatter) types.back().dims[0] /= n;
      if (kind == Kind::kAllGather) types.back().dims[0] *= n;
    }
    return emitter_.Together(spec, values, types);
  }

  void Write(const ir::Op& op, const Call& call) {
    ir::Builder& b = emitter_.b();
    b.set_region(&scratch_);
    b.set_location(op.location);
    emitter_.set_cause(call.cause);
    const Values values(op.operands.begin(), op.operands.end());
    const Values made = call.kind == Kind::kAllReduce   ? Sum(call, values)
                        : call.kind == Kind::kAllGather ? Gather(call, values)
                                                        : Scatter(call, values);
    for (size_t i = 0; i < made.size(); ++i) replaced_[op.result(i)] = made[i];
  }

  // As vectors, so that any size splits: at most n - 1 elements are padding.
  Values Sum(const Call& call, const Values& operands) {
    ir::Builder& b = emitter_.b();
    const int64_t n = mesh_.SizeOf(call.split.near);
    Values values;
    for (ir::Value* v : operands) {
      const int64_t size = v->type.num_elements();
      const int64_t vector[] = {size};
      values.push_back(PadDim(emitter_, b.Reshape(v, vector), 0, sharding::CeilDiv(size, n) * n));
    }
    values = Step(Kind::kReduceScatter, call, call.split.near, values);
    values = Step(Kind::kAllReduce, call, call.split.far, values);
    values = Step(Kind::kAllGather, call, call.split.near, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const ir::Type& type = operands[i]->type;
      const int64_t start[] = {0};
      const int64_t limit[] = {type.num_elements()};
      if (values[i]->type.dims[0] > limit[0]) values[i] = b.Slice(values[i], start, limit);
      values[i] = b.Reshape(values[i], type.dims);
    }
    return values;
  }

  // Across with the shards as they are, then inside with what has come: parts [near, far].
  Values Gather(const Call& call, const Values& operands) {
    Values values;
    for (ir::Value* v : operands) {
      std::vector<int64_t> dims = {1};
      dims.insert(dims.end(), v->type.dims.begin(), v->type.dims.end());
      values.push_back(emitter_.b().Reshape(v, dims));
    }
    values = Step(Kind::kAllGather, call, call.split.far, values);
    values = Step(Kind::kAllGather, call, call.split.near, values);
    for (size_t i = 0; i < values.size(); ++i) values[i] = InPlace(call, values[i]);
    return values;
  }

  // The other way round: inside first, so that one part in as many as there are crosses.
  Values Scatter(const Call& call, const Values& operands) {
    Values values;
    for (ir::Value* v : operands) values.push_back(InFront(call, v));
    values = Step(Kind::kReduceScatter, call, call.split.near, values);
    values = Step(Kind::kReduceScatter, call, call.split.far, values);
    for (ir::Value*& v : values) {
      const std::vector<int64_t> dims(v->type.dims.begin() + 1, v->type.dims.end());
      v = emitter_.b().Reshape(v, dims);
    }
    return values;
  }

  // Where the axes of a call stand among those near and far.
  std::vector<int64_t> Places(const Call& call) const {
    AxisList order = call.split.near;
    order.insert(order.end(), call.split.far.begin(), call.split.far.end());
    std::vector<int64_t> places;
    for (uint8_t a : call.axes) {
      places.push_back(std::find(order.begin(), order.end(), a) - order.begin());
    }
    return places;
  }

  // From parts in front, [near, far, …], to parts along the call's dimension, in its order.
  ir::Value* InPlace(const Call& call, ir::Value* x) {
    std::vector<int64_t> dims, permutation;
    for (uint8_t a : call.split.near) dims.push_back(mesh_.size(a));
    for (uint8_t a : call.split.far) dims.push_back(mesh_.size(a));
    const auto axes = static_cast<int64_t>(dims.size());
    dims.insert(dims.end(), x->type.dims.begin() + 1, x->type.dims.end());
    std::vector<int64_t> whole(x->type.dims.begin() + 1, x->type.dims.end());
    whole[call.dim] *= mesh_.SizeOf(call.axes);
    for (int64_t d = 0; d < static_cast<int64_t>(whole.size()); ++d) {
      if (d == call.dim) {
        for (int64_t place : Places(call)) permutation.push_back(place);
      }
      permutation.push_back(axes + d);
    }
    ir::Builder& b = emitter_.b();
    return b.Reshape(Transposed(b.Reshape(x, dims), permutation), whole);
  }

  // And back.
  ir::Value* InFront(const Call& call, ir::Value* x) {
    std::vector<int64_t> dims(x->type.dims.begin(), x->type.dims.end());
    const int64_t n = mesh_.SizeOf(call.axes);
    dims[call.dim] /= n;
    std::vector<int64_t> result = {n};
    result.insert(result.end(), dims.begin(), dims.end());
    const auto axes = static_cast<int64_t>(call.axes.size());
    std::vector<int64_t> permutation(axes);
    const std::vector<int64_t> places = Places(call);
    for (int64_t i = 0; i < axes; ++i) permutation[places[i]] = call.dim + i;
    const auto rank = static_cast<int64_t>(dims.size());
    for (int64_t d = 0; d < rank; ++d) permutation.push_back(d < call.dim ? d : d + axes);
    std::vector<int64_t> parts;
    for (uint8_t a : call.axes) parts.push_back(mesh_.size(a));
    dims.insert(dims.begin() + call.dim, parts.begin(), parts.end());
    ir::Builder& b = emitter_.b();
    return b.Reshape(Transposed(b.Reshape(x, dims), permutation), result);
  }

  ir::Value* Transposed(ir::Value* x, const std::vector<int64_t>& permutation) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    return emitter_.b().Transpose(x, permutation);
  }

  Emitter& emitter_;
  const Mesh& mesh_;
  absl::flat_hash_map<const ir::Op*, Call> calls_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
  ir::Region scratch_;
};

}  // namespace

double AllReduceCost(const Mesh& mesh, double bytes, AxisSet axes) {
  return CheaperWay(mesh, Kind::kAllReduce, bytes, axes);
}

double GatherCost(const Mesh& mesh, double whole_bytes, AxisSet axes) {
  return CheaperWay(mesh, Kind::kAllGather, whole_bytes, axes);
}

void CrossInSteps(Emitter& emitter, ir::Region* region, IslandSteps when) {
  if (when == IslandSteps::kNever) return;
  Pass pass(emitter, when);
  if (pass.empty()) return;
  const ir::Location* location = emitter.b().location();
  ir::Region* place = emitter.b().region();
  pass.Visit(region);
  emitter.b().set_region(place);
  emitter.b().set_location(location);
  ReplaceUses(*region, pass.replaced());
}

}  // namespace shardway::spmd
