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

AxisSet Across(const Mesh& mesh, AxisSet axes) { return mesh.DearestOf(axes); }
AxisSet Inside(const Mesh& mesh, AxisSet axes) { return axes & ~Across(mesh, axes); }
bool Crosses(const Mesh& mesh, AxisSet axes) { return Across(mesh, axes) != 0; }

double OneCallCost(const Mesh& mesh, double bytes, AxisSet axes) {
  const Traffic sum = {kCollectivePrice, AllReduceBytes(bytes, mesh.SizeOf(axes))};
  return CostOver(sum, mesh, axes) + kCopyPrice * bytes;
}

double StepsCost(const Mesh& mesh, double bytes, AxisSet axes) {
  const AxisSet inside = Inside(mesh, axes);
  const int64_t n = mesh.SizeOf(inside);
  const double part = bytes / static_cast<double>(n);
  const Traffic scattered = {kCollectivePrice, GatherBytes(bytes, n)};
  return CostOver(2 * scattered, mesh, inside) + kCopyPrice * (part + bytes) +
         OneCallCost(mesh, part, Across(mesh, axes));
}

class Pass {
 public:
  Pass(Emitter& emitter, IslandSteps when) : emitter_(emitter) {
    for (const CollectiveCall& call : emitter.calls()) {
      if (call.spec.kind != Kind::kAllReduce) continue;
      const std::optional<AxisSet> axes = AxesOf(call.spec.groups);
      if (!axes || !Crosses(emitter.mesh(), *axes)) continue;
      double bytes = 0;
      for (const ir::Value* v : call.op->operands)
        bytes += static_cast<double>(v->type.num_bytes());
      if (when == IslandSteps::kAlways ||
          StepsCost(emitter.mesh(), bytes, *axes) < OneCallCost(emitter.mesh(), bytes, *axes)) {
        calls_.emplace(call.op, Call{call.spec.reduction, *axes, call.cause});
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
    collective::Reduction reduction;
    AxisSet axes;
    Cause cause;
  };

  // The axes that the groups run over; nullopt for other groups, and for those of replicas.
  std::optional<AxisSet> AxesOf(const collective::Groups& groups) const {
    if (!groups.lists.empty()) return std::nullopt;
    std::vector<sharding::Stride> strides;
    for (int axis : groups.axes) {
      int64_t stride = 1;
      for (size_t minor = axis + 1; minor < groups.mesh.size(); ++minor)
        stride *= groups.mesh[minor];
      strides.push_back({groups.mesh[axis], stride});
    }
    const std::optional<AxisList> atoms = emitter_.mesh().AtomsOf(strides);
    if (!atoms) return std::nullopt;
    return sharding::ToSet(*atoms);
  }

  // `values`, vectors, through one collective.
  std::vector<ir::Value*> Step(Kind kind, const Call& call, AxisSet axes,
                               const std::vector<ir::Value*>& values) {
    collective::Spec spec;
    spec.kind = kind;
    if (kind != Kind::kAllGather) spec.reduction = call.reduction;
    const AxisList list = emitter_.mesh().ToList(axes);
    spec.groups = emitter_.GroupsOver(list);
    const int64_t n = emitter_.mesh().SizeOf(list);
    std::vector<ir::Type> types;
    for (const ir::Value* v : values) {
      types.push_back(v->type);
      if (kind == Kind::kReduceScatter) types.back().dims[0] /= n;
      if (kind == Kind::kAllGather) types.back().dims[0] *= n;
    }
    return emitter_.Together(spec, values, types);
  }

  // As vectors, so that any size splits: at most n - 1 elements are padding.
  void Write(const ir::Op& op, const Call& call) {
    const Mesh& mesh = emitter_.mesh();
    ir::Builder& b = emitter_.b();
    b.set_region(&scratch_);
    b.set_location(op.location);
    emitter_.set_cause(call.cause);
    const AxisSet inside = Inside(mesh, call.axes);
    const int64_t n = mesh.SizeOf(inside);
    std::vector<ir::Value*> values;
    for (ir::Value* v : op.operands) {
      const int64_t size = v->type.num_elements();
      const int64_t vector[] = {size};
      values.push_back(PadDim(emitter_, b.Reshape(v, vector), 0, sharding::CeilDiv(size, n) * n));
    }
    values = Step(Kind::kReduceScatter, call, inside, values);
    values = Step(Kind::kAllReduce, call, Across(mesh, call.axes), values);
    values = Step(Kind::kAllGather, call, inside, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const ir::Type& type = op.result(i)->type;
      const int64_t start[] = {0};
      const int64_t limit[] = {type.num_elements()};
      ir::Value* whole = values[i];
      if (whole->type.dims[0] > limit[0]) whole = b.Slice(whole, start, limit);
      replaced_[op.result(i)] = b.Reshape(whole, type.dims);
    }
  }

  Emitter& emitter_;
  absl::flat_hash_map<const ir::Op*, Call> calls_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> replaced_;
  ir::Region scratch_;
};

}  // namespace

double AllReduceCost(const Mesh& mesh, double bytes, AxisSet axes) {
  const double one = OneCallCost(mesh, bytes, axes);
  return Crosses(mesh, axes) ? std::min(one, StepsCost(mesh, bytes, axes)) : one;
}

void ReduceInSteps(Emitter& emitter, ir::Region* region, IslandSteps when) {
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
