#include "shardway/compile/manual_computation.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"

namespace shardway::compile {
namespace {

const std::vector<ir::SdySharding>* PerValue(const ir::Op& op, std::string_view name) {
  const ir::Attribute* a = op.Find(name);
  const auto* values = a != nullptr ? a->get_if<ir::SdyPerValue>() : nullptr;
  return values != nullptr ? &values->shardings : nullptr;
}

}  // namespace

absl::Status WriteManualComputation(const ir::Op& op, ir::Region* into, AxisSet outer,
                                    const AnnotationReader& annotations, FlatProgram& out,
                                    const InlineBody& inline_body) {
  const auto* before = PerValue(op, "in_shardings");
  const auto* after = PerValue(op, "out_shardings");
  const ir::Attribute* axes = op.Find("manual_axes");
  const auto* names = axes != nullptr ? axes->get_if<ir::SdyManualAxes>() : nullptr;
  if (before == nullptr || after == nullptr || names == nullptr ||
      before->size() != op.operands.size() || after->size() != op.results.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the manual computation at ", op.location->ToString(), " lacks shardings or axes"));
  }
  AxisSet added = 0;
  if (!before->empty() || !after->empty()) {
    auto set = annotations.meshes().ToSet(!before->empty() ? before->front() : after->front(),
                                          names->axes);
    if (!set.ok()) return At(set.status(), "manual computation", op.location);
    added = *set & ~outer;
  }
  const ir::Region& body = *op.regions[0];
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const std::string name = absl::StrCat("operand ", i, " of the manual computation");
    if (absl::Status sum = CheckSum((*before)[i]); !sum.ok()) return At(sum, name, op.location);
    auto annotation = annotations.meshes().ToAnnotation((*before)[i], op.operand(i)->type.rank());
    if (!annotation.ok()) return At(annotation.status(), name, op.location);
    ir::Value* whole = out.Constrain(out.cloner().Map(op.operand(i)), *std::move(annotation), into,
                                     op.location, outer);
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * part,
                              out.Convert(whole, body.arguments[i]->type, spmd::kFullToShard, added,
                                          outer | added, into, op.location));
    out.cloner().Bind(body.arguments[i], part);
  }
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, inline_body(body, outer | added));
  for (size_t i = 0; i < op.results.size(); ++i) {
    const std::string name = absl::StrCat("result ", i, " of the manual computation");
    if (absl::Status sum = CheckSum((*after)[i]); !sum.ok()) return At(sum, name, op.location);
    auto annotation = annotations.meshes().ToAnnotation((*after)[i], op.result(i)->type.rank());
    if (!annotation.ok()) return At(annotation.status(), name, op.location);
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * whole,
                              out.Convert(results[i], op.result(i)->type, spmd::kShardToFull, added,
                                          outer, into, op.location));
    annotation->unreduced &= ~outer;
    out.program().annotations[whole->id] = *std::move(annotation);
    out.cloner().Bind(op.result(i), whole);
  }
  return absl::OkStatus();
}

}  // namespace shardway::compile
