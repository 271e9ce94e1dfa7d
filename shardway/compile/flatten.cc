#include "shardway/compile/flatten.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/compile/annotations.h"
#include "shardway/compile/approx_top_k.h"
#include "shardway/compile/flat_program.h"
#include "shardway/compile/manual_axes.h"
#include "shardway/compile/manual_computation.h"
#include "shardway/compile/mesh_of_module.h"
#include "shardway/compile/scalar_body.h"
#include "shardway/ir/builder.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/fault_names.h"
#include "shardway/spmd/concatenate.h"
#include "shardway/spmd/host_transfer.h"

namespace shardway::compile {
namespace {

using sharding::Annotation;
using sharding::AxisSet;

bool IsHostTransfer(const ir::Op& op) {
  return op.kind == ir::OpKind::kInfeed || op.kind == ir::OpKind::kOutfeed ||
         op.kind == ir::OpKind::kSend || op.kind == ir::OpKind::kRecv;
}

class Flattener {
 public:
  Flattener(const ir::Module& module, const Request& request) : from_(module), request_(request) {}

  absl::StatusOr<spmd::Program> Run() {
    SHARDWAY_ASSIGN_OR_RETURN(out_.program().mesh, MeshOfModule(from_, request_.num_partitions));
    out_.program().num_replicas = request_.num_replicas;
    annotations_.emplace(from_, out_.program().mesh);
    out_.module().name = from_.name;
    const ir::Function* main = from_.main();
    if (main == nullptr) return absl::InvalidArgumentError("the program has no function main");
    ir::Function* flat = out_.module().AddFunction("main");
    flat->is_public = true;
    flat->arg_attrs = main->arg_attrs;
    flat->result_attrs = main->result_attrs;
    flat->arg_attrs.resize(main->arguments().size());
    flat->result_attrs.resize(main->result_types.size());
    flat->result_types = main->result_types;
    flat->location = out_.cloner().CloneLocation(main->location);
    for (size_t i = 0; i < main->arguments().size(); ++i) {
      SHARDWAY_RETURN_IF_ERROR(Argument(*main, i, flat));
    }
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                              Inline(*main->body, flat->body, 0, 0));
    for (size_t i = 0; i < results.size(); ++i) {
      SHARDWAY_RETURN_IF_ERROR(Result(*main, i, flat->body, results[i]));
    }
    ir::Builder(&out_.module(), flat->body).FuncReturn(results);
    spmd::Program program = std::move(out_).Finish();
    if (foreign_conversions_) SHARDWAY_RETURN_IF_ERROR(InferManualAxes(program));
    return program;
  }

 private:
  static bool Allowed(const std::vector<bool>& allow, size_t i) {
    if (allow.empty()) return false;
    return allow.size() == 1 ? allow[0] : i < allow.size() && allow[i];
  }

  // "the sharding constraint of a tensor<8xf32>"
  static std::string NameOfResult(const std::string& what, const ir::Op& op, size_t i) {
    return absl::StrCat(what, " of a ", op.results[i]->type.ToString());
  }

  absl::Status Argument(const ir::Function& main, size_t i, ir::Function* flat) {
    const ir::Value* v = main.arguments()[i];
    ir::Value* arg = out_.module().AddArgument(flat->body, v->type);
    if (v->location != nullptr) arg->location = out_.cloner().CloneLocation(v->location);
    out_.cloner().Bind(v, arg);
    std::optional<Annotation> annotation;
    if (i < main.arg_attrs.size()) {
      if (absl::Status sum = CheckSum(main.arg_attrs[i]); !sum.ok()) {
        return At(sum, ir::NameOfArgument(main, i), nullptr);
      }
      auto read = annotations_->Read(main.arg_attrs[i], v->type);
      absl::Status fault = read.status();
      if (fault.ok() && *read) fault = annotations_->CheckDivides(**read, v->type);
      if (!fault.ok()) return At(fault, ir::NameOfArgument(main, i), nullptr);
      annotation = *std::move(read);
    }
    if (!annotation && !Allowed(request_.allow_propagation_to_parameters, i)) {
      annotation.emplace().sharding = sharding::Sharding::Replicated(v->type.rank());
    }
    if (annotation) out_.program().annotations[arg->id] = *std::move(annotation);
    return absl::OkStatus();
  }

  absl::Status Result(const ir::Function& main, size_t i, ir::Region* body, ir::Value*& value) {
    std::optional<Annotation> annotation;
    if (i < main.result_attrs.size()) {
      if (absl::Status sum = CheckSum(main.result_attrs[i]); !sum.ok()) {
        return At(sum, ir::NameOfResult(main, i), nullptr);
      }
      auto read = annotations_->Read(main.result_attrs[i], value->type);
      absl::Status fault = read.status();
      if (fault.ok() && *read) fault = annotations_->CheckDivides(**read, value->type);
      if (!fault.ok()) return At(fault, ir::NameOfResult(main, i), nullptr);
      annotation = *std::move(read);
    }
    if (!annotation && !Allowed(request_.allow_propagation_to_results, i)) {
      annotation.emplace().sharding = sharding::Sharding::Replicated(value->type.rank());
    }
    // A constraint of its own, so that the boundary is laid out apart from what it returns.
    if (value->type.is_tensor()) {
      value = out_.Constrain(value, annotation.value_or(OpenAnnotation(value->type.rank())), body,
                             nullptr, 0);
    }
    return absl::OkStatus();
  }

  static Annotation OpenAnnotation(int rank) {
    Annotation open;
    open.sharding = sharding::Sharding::Replicated(rank);
    open.open = ~uint32_t{0};
    return open;
  }

  // Appends the operators of `region` (arguments bound) and returns what its terminator's operands
  // became.
  absl::StatusOr<std::vector<ir::Value*>> Inline(const ir::Region& region, ir::Region* into,
                                                 AxisSet manual, int depth) {
    if (depth > kMaxCallDepth) return absl::ResourceExhaustedError("calls nest too deeply");
    for (const ir::Op* op : region.ops) {
      switch (op->kind) {
        case ir::OpKind::kFuncReturn:
        case ir::OpKind::kReturn:
        case ir::OpKind::kSdyReturn: {
          std::vector<ir::Value*> values;
          for (const ir::Value* v : op->operands) values.push_back(out_.cloner().Map(v));
          return values;
        }
        default:
          SHARDWAY_RETURN_IF_ERROR(Visit(*op, into, manual, depth));
      }
      if (out_.module().num_ops() > kMaxOps) {
        return absl::ResourceExhaustedError(absl::StrCat("the program has more than ", kMaxOps,
                                                         " operators with its calls inlined"));
      }
    }
    return absl::InvalidArgumentError("a region without a return");
  }

  absl::Status Visit(const ir::Op& op, ir::Region* into, AxisSet manual, int depth) {
    switch (op.kind) {
      case ir::OpKind::kCall:
        return Call(op, op.String("callee"), into, manual, depth);
      case ir::OpKind::kComposite:
        return Call(op, op.String("decomposition"), into, manual, depth);
      case ir::OpKind::kSdyNamedComputation:
        return NamedComputation(op, into, manual, depth);
      case ir::OpKind::kSdyManualComputation:
        return WriteManualComputation(op, into, manual, *annotations_, out_,
                                      [&](const ir::Region& body, AxisSet inside) {
                                        return Inline(body, into, inside, depth + 1);
                                      });
      case ir::OpKind::kSdyShardingConstraint:
      case ir::OpKind::kSdyReshard:
      case ir::OpKind::kSdyDataFlowEdge: {
        auto annotation = annotations_->OfConstraint(op);
        absl::Status fault = annotation.status();
        if (fault.ok() && *annotation) fault = annotations_->CheckManual(**annotation, manual);
        if (!fault.ok()) {
          const bool edge = op.kind == ir::OpKind::kSdyDataFlowEdge;
          return At(fault,
                    NameOfResult(edge ? "the data-flow edge" : "the sharding constraint", op, 0),
                    op.location);
        }
        return ConstraintOp(op, *std::move(annotation), into, manual);
      }
      case ir::OpKind::kSdyShardingGroup:
        return ShardingGroup(op);
      case ir::OpKind::kSdyConstant: {
        ir::Op* copy = out_.Copy(op, into, manual);
        copy->kind = ir::OpKind::kConstant;
        return Annotate(op, *copy, manual);
      }
      case ir::OpKind::kWhile:
      case ir::OpKind::kIf:
      case ir::OpKind::kCase:
        return ControlFlow(op, into, manual, depth);
      case ir::OpKind::kCustomCall:
        return CustomCall(op, into, manual);
      default:
        return Other(op, into, manual);
    }
  }

  absl::Status ConstraintOp(const ir::Op& op, std::optional<Annotation> annotation,
                            ir::Region* into, AxisSet manual) {
    ir::Value* v = out_.cloner().Map(op.operand(0));
    if (annotation) v = out_.Constrain(v, *std::move(annotation), into, op.location, manual);
    out_.cloner().Bind(op.result(), v);
    return absl::OkStatus();
  }

  // No operator of the flat program: a group of values there.
  absl::Status ShardingGroup(const ir::Op& op) {
    const ir::Value* v = out_.cloner().Map(op.operand(0));
    const auto [at, first] = groups_.try_emplace(op.Int("group_id"), out_.program().groups.size());
    if (first) out_.program().groups.emplace_back();
    std::vector<const ir::Value*>& group = out_.program().groups[at->second];
    if (!group.empty() && group[0]->type.dims != v->type.dims) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the sharding group ", op.Int("group_id"), " at ", op.location->ToString(),
          " has values of types ", group[0]->type.ToString(), " and ", v->type.ToString()));
    }
    group.push_back(v);
    return absl::OkStatus();
  }

  absl::Status Call(const ir::Op& op, std::string_view callee, ir::Region* into, AxisSet manual,
                    int depth) {
    const ir::Function* f = from_.FindFunction(callee);
    if (f == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("call of the unknown function @", std::string(callee)));
    }
    if (std::find(stack_.begin(), stack_.end(), f) != stack_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the function @", f->name, " calls itself"));
    }
    stack_.push_back(f);
    const ir::Location* const outer = out_.caller();
    if (!op.location->file.empty()) out_.set_caller(op.location);
    SHARDWAY_ASSIGN_OR_RETURN(const Annotations before,
                              OfFunction(*f, f->arg_attrs, op.operands, "argument", op, manual));
    SHARDWAY_ASSIGN_OR_RETURN(const Annotations after,
                              OfFunction(*f, f->result_attrs, op.results, "result", op, manual));
    SHARDWAY_RETURN_IF_ERROR(InlineRegion(op, *f->body, before, after, into, manual, depth));
    out_.set_caller(outer);
    stack_.pop_back();
    return ConstrainResults(op, into, manual);
  }

  absl::Status NamedComputation(const ir::Op& op, ir::Region* into, AxisSet manual, int depth) {
    const std::string name =
        absl::StrCat(" of the computation \"", std::string(op.String("name")), "\"");
    SHARDWAY_ASSIGN_OR_RETURN(
        const Annotations before,
        annotations_->OfList(op, "in_shardings", op.operands, "an operand" + name, manual));
    SHARDWAY_ASSIGN_OR_RETURN(
        const Annotations after,
        annotations_->OfList(op, "out_shardings", op.results, "a result" + name, manual));
    SHARDWAY_RETURN_IF_ERROR(InlineRegion(op, *op.regions[0], before, after, into, manual, depth));
    return ConstrainResults(op, into, manual);
  }

  // What a function says of its arguments or results, called by `op`.
  absl::StatusOr<Annotations> OfFunction(const ir::Function& f,
                                         const std::vector<ir::AttrDict>& attributes,
                                         const std::vector<ir::Value*>& values, const char* what,
                                         const ir::Op& op, AxisSet manual) {
    Annotations found;
    for (size_t i = 0; i < attributes.size() && i < values.size(); ++i) {
      found.emplace_back();
      if (!values[i]->type.is_tensor()) continue;
      auto read = annotations_->Read(attributes[i], values[i]->type);
      absl::Status fault = read.status();
      if (fault.ok() && *read) fault = annotations_->CheckManual(**read, manual);
      if (!fault.ok()) {
        return At(fault, absl::StrCat(what, " ", i, " of @", f.name, ", called"), op.location);
      }
      if (*read && !(*read)->maximal) found.back() = **std::move(read);
    }
    return found;
  }

  // `before` are annotations on the operands, `after` on what the region returns.
  absl::Status InlineRegion(const ir::Op& op, const ir::Region& region, const Annotations& before,
                            const Annotations& after, ir::Region* into, AxisSet manual, int depth) {
    if (region.arguments.size() != op.operands.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the call at ", op.location->ToString(),
                       " has another number of operands than its callee"));
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      ir::Value* v = out_.cloner().Map(op.operand(i));
      out_.cloner().Bind(region.arguments[i], Constrained(v, before, i, op, into, manual));
    }
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                              Inline(region, into, manual, depth + 1));
    for (size_t i = 0; i < op.results.size(); ++i) {
      out_.cloner().Bind(op.result(i), Constrained(results[i], after, i, op, into, manual));
    }
    return absl::OkStatus();
  }

  ir::Value* Constrained(ir::Value* v, const Annotations& annotations, size_t i, const ir::Op& op,
                         ir::Region* into, AxisSet manual) {
    if (i >= annotations.size() || !annotations[i]) return v;
    return out_.Constrain(v, *annotations[i], into, op.location, manual);
  }

  // Annotations on the results of an operator that became several others.
  absl::Status ConstrainResults(const ir::Op& op, ir::Region* into, AxisSet manual) {
    SHARDWAY_ASSIGN_OR_RETURN(const Annotations annotations, annotations_->OfResults(op, manual));
    for (size_t i = 0; i < annotations.size(); ++i) {
      ir::Value* v = out_.cloner().Map(op.result(i));
      out_.cloner().Bind(op.result(i), Constrained(v, annotations, i, op, into, manual));
    }
    return absl::OkStatus();
  }

  // Annotations on the results of an operator that became `copy`.
  absl::Status Annotate(const ir::Op& op, const ir::Op& copy, AxisSet manual) {
    SHARDWAY_ASSIGN_OR_RETURN(const Annotations annotations, annotations_->OfResults(op, manual));
    for (size_t i = 0; i < annotations.size(); ++i) {
      if (!annotations[i]) continue;
      out_.program().annotations[copy.result(i)->id] = *annotations[i];
      if (op.kind != ir::OpKind::kWhile) continue;
      // What a loop ends with is its state, which is one thing all the way.
      for (const ir::Region* region : copy.regions) {
        out_.program().annotations[region->arguments[i]->id] = *annotations[i];
      }
    }
    return absl::OkStatus();
  }

  absl::Status ControlFlow(const ir::Op& op, ir::Region* into, AxisSet manual, int depth) {
    ir::Op* copy = out_.Copy(op, into, manual);
    for (const ir::Region* region : op.regions) {
      ir::Region* inner = out_.module().AddRegion(copy);
      for (const ir::Value* v : region->arguments) {
        ir::Value* arg = out_.module().AddArgument(inner, v->type);
        if (manual != 0) out_.SetManual(arg, manual);
        out_.cloner().Bind(v, arg);
      }
      SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results,
                                Inline(*region, inner, manual, depth + 1));
      ir::Builder(&out_.module(), inner).Return(results);
    }
    return Annotate(op, *copy, manual);
  }

  absl::Status CustomCall(const ir::Op& op, ir::Region* into, AxisSet manual) {
    const std::string_view target = op.String("call_target_name");
    const bool conversion = target == spmd::kFullToShard || target == spmd::kShardToFull;
    if (IsApproxTopK(op)) {
      SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Op*> made,
                                LowerApproxTopK(from_, op, into, out_.module(), out_.cloner()));
      for (const ir::Op* one : made) out_.SetManual(one, manual);
      return ConstrainResults(op, into, manual);
    }
    if (target == "CustomSPMDPartitioning") {
      return absl::UnimplementedError(
          absl::StrCat("custom_partitioning at ", op.location->ToString(),
                       ": its partition function lives in the Python process that made the "
                       "program, which is not "
                       "asked; call the function of one shard inside jax.shard_map instead"));
    }
    if (target != "Sharding" && !conversion) {
      if (op.Find("called_computations") == nullptr) return Other(op, into, manual);
      return absl::UnimplementedError(absl::StrCat(
          "custom call ", std::string(target), " at ", op.location->ToString(),
          ": which of the module's functions it calls, and how often, only its own library "
          "knows; write the call without called_computations"));
    }
    if (op.operands.size() != 1 || op.results.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(target), " at ",
                                                     op.location->ToString(),
                                                     " must have one operand and one result"));
    }
    auto annotation = annotations_->Read(op.attributes, op.result()->type);
    if (!annotation.ok()) {
      return At(annotation.status(), NameOfResult(std::string(target), op, 0), op.location);
    }
    if (!annotation->has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(target), " at ", op.location->ToString(), " without a sharding"));
    }
    (*annotation)->open |= UnspecifiedDims(op.String("backend_config"));
    if (!conversion) return ConstraintOp(op, *std::move(annotation), into, manual);
    // The manual axes of the region stand in the sharding of its inner side: that of the first
    // conversion, and of the constraint before the second (see manual_axes.h).
    foreign_conversions_ = true;
    ir::Value* v = out_.cloner().Map(op.operand(0));
    const AxisSet axes = target == spmd::kFullToShard ? (*annotation)->manual : 0;
    SHARDWAY_ASSIGN_OR_RETURN(
        ir::Value * result, out_.Convert(v, op.result()->type, target, axes, 0, into, op.location));
    if (target == spmd::kShardToFull)
      out_.program().annotations[result->id] = **std::move(annotation);
    out_.cloner().Bind(op.result(), result);
    return absl::OkStatus();
  }

  absl::Status Other(const ir::Op& op, ir::Region* into, AxisSet manual) {
    if (op.kind >= ir::OpKind::kSdyAllGather) {
      return absl::UnimplementedError(absl::StrCat(
          std::string(ir::OpKindName(op.kind)), " at ", op.location->ToString(),
          " is what Shardy's own partitioner makes; hand over the program before it has run"));
    }
    ir::Op* copy = out_.Copy(op, into, manual);
    for (const ir::Region* region : op.regions) {
      SHARDWAY_RETURN_IF_ERROR(CopyScalarBody(from_, *region, out_.module().AddRegion(copy),
                                              out_.module(), out_.cloner()));
    }
    if (op.kind == ir::OpKind::kConcatenate) spmd::SeeThroughSlices(*copy);
    if (IsHostTransfer(op)) {
      if (const auto device = annotations_->DeviceOf(op)) {
        ir::Set(copy->attributes, std::string(spmd::kOnDevice), *device);
      }
    }
    return Annotate(op, *copy, manual);
  }

  const ir::Module& from_;
  const Request& request_;
  FlatProgram out_;
  std::optional<AnnotationReader> annotations_;
  std::vector<const ir::Function*> stack_;
  absl::flat_hash_map<int64_t, size_t> groups_;  // id → index in out_.program().groups
  bool foreign_conversions_ = false;
};

}  // namespace

absl::StatusOr<spmd::Program> Flatten(const ir::Module& module, const Request& request) {
  return Flattener(module, request).Run();
}

}  // namespace shardway::compile
