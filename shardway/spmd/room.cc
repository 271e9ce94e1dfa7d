#include "shardway/spmd/room.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::spmd {

LocalResults EmitAsIs(LocalOp& local) { return EmitWith(local, local.op.attributes); }

LocalResults EmitWith(LocalOp& local, ir::AttrDict attributes) {
  ir::Erase(attributes, "mhlo.sharding");
  ir::Erase(attributes, "sdy.sharding");
  ir::Erase(attributes, "sdy.sharding_rule");
  ir::Op* op =
      local.e.b().Create(local.op.kind, local.operands, local.result_types, std::move(attributes));
  for (const ir::Region* region : local.op.regions) {
    if (absl::Status s = CloneBody(*region, local.e.module()->AddRegion(op), local.e.module());
        !s.ok()) {
      return s;
    }
  }
  return op->results;
}

ir::Value* MaskPadding(Emitter& e, ir::Value* x, const ir::Type& type, const Sharding& sharding,
                       int dim, ir::Value* fill) {
  const AxisList& axes = sharding.dims[dim];
  const int64_t size = type.dims[dim];
  const int64_t tile = x->type.dims[dim];
  if (tile * e.mesh().SizeOf(axes) == size) return x;
  ir::Builder& b = e.b();
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  // Real elements here: size - coordinate * tile, whatever their number.
  ir::Value* before = b.Binary(ir::OpKind::kMultiply, e.Coordinate(axes), b.SplatInt(i32, tile));
  ir::Value* left = b.Binary(ir::OpKind::kSubtract, b.SplatInt(i32, size), before);
  return KeepFirst(e, x, dim, left, fill);
}

ir::Value* KeepFirst(Emitter& e, ir::Value* x, int dim, ir::Value* count, ir::Value* fill) {
  ir::Builder& b = e.b();
  const ir::Type positions = ir::Type::Tensor(ElementType::kI32, x->type.dims);
  ir::Value* real =
      b.Compare("LT", b.Iota(positions, dim), b.BroadcastInDim(count, x->type.dims, {}));
  return b.Select(real, x, b.BroadcastInDim(fill, x->type.dims, {}));
}

namespace {

using Values = absl::flat_hash_map<const ir::Value*, ir::Value*>;

absl::Status CloneOps(const ir::Region& from, ir::Region* to, ir::Module* module, Values& values);

absl::Status CloneInto(const ir::Region& from, ir::Region* to, ir::Module* module, Values& values) {
  for (const ir::Value* arg : from.arguments) values[arg] = module->AddArgument(to, arg->type);
  return CloneOps(from, to, module, values);
}

absl::Status CloneOps(const ir::Region& from, ir::Region* to, ir::Module* module, Values& values) {
  for (const ir::Op* op : from.ops) {
    std::vector<ir::Value*> operands;
    std::vector<ir::Type> types;
    for (const ir::Value* v : op->operands) {
      auto it = values.find(v);
      if (it == values.end()) {
        return absl::UnimplementedError(
            absl::StrCat("the body of an operator at ", op->location->ToString(),
                         " uses a value from outside; pass it as an operand"));
      }
      operands.push_back(it->second);
    }
    if (op->kind == ir::OpKind::kSdyShardingConstraint) {
      values[op->result()] = operands[0];
      continue;
    }
    for (const ir::Value* v : op->results) types.push_back(v->type);
    const bool is_return = op->kind == ir::OpKind::kSdyReturn;
    ir::Op* copy = module->Append(to, is_return ? ir::OpKind::kReturn : op->kind, operands, types,
                                  op->location);
    copy->attributes = op->attributes;
    ir::Erase(copy->attributes, "sdy.sharding");
    for (size_t i = 0; i < types.size(); ++i) values[op->results[i]] = copy->results[i];
    for (const ir::Region* region : op->regions) {
      if (absl::Status s = CloneInto(*region, module->AddRegion(copy), module, values); !s.ok())
        return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CloneBody(const ir::Region& from, ir::Region* to, ir::Module* module) {
  Values values;
  return CloneInto(from, to, module, values);
}

absl::StatusOr<std::vector<ir::Value*>> InlineBody(const ir::Region& from,
                                                   absl::Span<ir::Value* const> arguments,
                                                   ir::Region* to, ir::Module* module) {
  Values values;
  for (size_t i = 0; i < arguments.size(); ++i) values[from.arguments[i]] = arguments[i];
  if (absl::Status s = CloneOps(from, to, module, values); !s.ok()) return s;
  std::vector<ir::Value*> returned = to->ops.back()->operands;
  to->ops.pop_back();
  return returned;
}

}  // namespace shardway::spmd
