#include "shardway/compile/flat_program.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::compile {

spmd::Program FlatProgram::Finish() && {
  program_.manual.resize(module_->num_values(), 0);
  program_.module = std::move(module_);
  return std::move(program_);
}

ir::Op* FlatProgram::Copy(const ir::Op& op, ir::Region* into, AxisSet manual) {
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (const ir::Value* v : op.operands) operands.push_back(cloner_.Map(v));
  for (const ir::Value* v : op.results) types.push_back(v->type);
  ir::Op* copy = module_->Append(into, op.kind, operands, types, UserLocation(op.location));
  copy->attributes = op.attributes;
  for (size_t i = 0; i < op.results.size(); ++i) cloner_.Bind(op.result(i), copy->result(i));
  SetManual(copy, manual);
  return copy;
}

ir::Value* FlatProgram::Constrain(ir::Value* value, Annotation annotation, ir::Region* into,
                                  const ir::Location* location, AxisSet manual) {
  ir::Op* op =
      module_->Append(into, ir::OpKind::kSdyShardingConstraint, {&value, 1}, {&value->type, 1},
                      location != nullptr ? UserLocation(location) : nullptr);
  annotation.unreduced &= ~manual;  // inside a region over them parts are values of their own
  program_.annotations[op->result()->id] = std::move(annotation);
  SetManual(op, manual);
  return op->result();
}

void FlatProgram::SetManual(const ir::Op* op, AxisSet manual) {
  if (manual == 0) return;
  for (const ir::Value* v : op->results) SetManual(v, manual);
}
void FlatProgram::SetManual(const ir::Value* v, AxisSet manual) {
  if (program_.manual.size() <= v->id) program_.manual.resize(v->id + 1, 0);
  program_.manual[v->id] = manual;
}

absl::StatusOr<ir::Value*> FlatProgram::Convert(ir::Value* v, const ir::Type& type,
                                                std::string_view target, AxisSet axes,
                                                AxisSet manual, ir::Region* into,
                                                const ir::Location* location) {
  if (!type.is_tensor() && !v->type.is_tensor()) return v;
  const ir::Type& full = target == spmd::kFullToShard ? v->type : type;
  const ir::Type& shard = target == spmd::kFullToShard ? type : v->type;
  bool fits = full.is_tensor() && shard.is_tensor() && full.rank() == shard.rank() &&
              full.element == shard.element;
  for (int d = 0; fits && d < full.rank(); ++d) {
    fits = shard.dims[d] == 0 ? full.dims[d] == 0 : full.dims[d] % shard.dims[d] == 0;
  }
  // Shardings mean nothing on one device; a part that they cut is none there.
  fits = fits && (program_.mesh.num_devices() > 1 || full == shard);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("the manual region at ", location->ToString(),
                                                   ": ", shard.ToString(), " is no part of ",
                                                   full.ToString()));
  }
  ir::Op* op =
      module_->Append(into, ir::OpKind::kCustomCall, {&v, 1}, {&type, 1}, UserLocation(location));
  ir::Set(op->attributes, "call_target_name", std::string(target));
  program_.conversions[op] = axes;
  SetManual(op, manual);
  return op->result();
}

const ir::Location* FlatProgram::UserLocation(const ir::Location* location) {
  if (caller_ == nullptr || location == nullptr || !location->file.empty()) {
    return cloner_.CloneLocation(location);
  }
  const ir::Location*& here = called_from_[{location, caller_}];
  if (here == nullptr) {
    ir::Location of_caller = *caller_;
    of_caller.name = location->name;
    here = module_->AddLocation(std::move(of_caller));
  }
  return here;
}

}  // namespace shardway::compile
