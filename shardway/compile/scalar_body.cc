#include "shardway/compile/scalar_body.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/builder.h"

namespace shardway::compile {
namespace {

class Copier {
 public:
  Copier(const ir::Module& from, ir::Region* into, ir::Module& to, ir::Cloner& cloner)
      : from_(from), into_(into), to_(to), cloner_(cloner) {}

  absl::Status Copy(const ir::Region& body) {
    for (const ir::Value* v : body.arguments) cloner_.Bind(v, to_.AddArgument(into_, v->type));
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, Inline(body, 0));
    ir::Builder(&to_, into_).Return(results);
    return ImportConstants(into_);
  }

 private:
  static bool IsAnnotation(const ir::Op& op) {
    return op.kind == ir::OpKind::kSdyShardingConstraint ||
           (op.kind == ir::OpKind::kCustomCall && op.String("call_target_name") == "Sharding" &&
            op.operands.size() == 1 && op.results.size() == 1);
  }

  absl::StatusOr<std::vector<ir::Value*>> Inline(const ir::Region& region, int depth) {
    if (depth > kMaxCallDepth || to_.num_ops() > kMaxOps) {
      return absl::ResourceExhaustedError("calls nest too deeply in the body of an operator");
    }
    for (const ir::Op* op : region.ops) {
      switch (op->kind) {
        case ir::OpKind::kReturn:
        case ir::OpKind::kFuncReturn: {
          std::vector<ir::Value*> values;
          for (const ir::Value* v : op->operands) values.push_back(cloner_.Map(v));
          return values;
        }
        case ir::OpKind::kCall:
          SHARDWAY_RETURN_IF_ERROR(Call(*op, op->String("callee"), depth));
          break;
        case ir::OpKind::kComposite:
          SHARDWAY_RETURN_IF_ERROR(Call(*op, op->String("decomposition"), depth));
          break;
        default:
          if (IsAnnotation(*op)) {
            cloner_.Bind(op->result(), cloner_.Map(op->operand(0)));
          } else {
            cloner_.CloneOp(*op, into_);
          }
      }
    }
    return absl::InvalidArgumentError("a region without a return");
  }

  absl::Status Call(const ir::Op& op, std::string_view callee, int depth) {
    const ir::Function* f = from_.FindFunction(callee);
    if (f == nullptr || f->arguments().size() != op.operands.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a call of the unknown function @", std::string(callee)));
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      cloner_.Bind(f->arguments()[i], cloner_.Map(op.operand(i)));
    }
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, Inline(*f->body, depth + 1));
    for (size_t i = 0; i < op.results.size() && i < results.size(); ++i) {
      cloner_.Bind(op.result(i), results[i]);
    }
    return absl::OkStatus();
  }

  absl::Status ImportConstants(ir::Region* region) {
    for (ir::Value* v : region->arguments) inside_[v] = v;
    for (size_t i = 0; i < region->ops.size(); ++i) {
      ir::Op* op = region->ops[i];
      for (ir::Value*& v : op->operands) {
        ir::Value*& here = inside_[v];
        if (here == nullptr) {
          if (v->def == nullptr || v->def->kind != ir::OpKind::kConstant) {
            return absl::UnimplementedError(
                absl::StrCat("the body of the operator at ", op->location->ToString(),
                             " uses a value from outside; pass it as an operand"));
          }
          ir::Op* copy =
              to_.Append(into_, ir::OpKind::kConstant, {}, {&v->type, 1}, v->def->location);
          copy->attributes = v->def->attributes;
          std::rotate(into_->ops.begin(), into_->ops.end() - 1, into_->ops.end());
          if (region == into_) ++i;
          here = copy->result();
        }
        v = here;
      }
      for (ir::Value* v : op->results) inside_[v] = v;
      for (ir::Region* inner : op->regions) SHARDWAY_RETURN_IF_ERROR(ImportConstants(inner));
    }
    return absl::OkStatus();
  }

  const ir::Module& from_;
  ir::Region* into_;
  ir::Module& to_;
  ir::Cloner& cloner_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> inside_;
};

}  // namespace

absl::Status CopyScalarBody(const ir::Module& from, const ir::Region& body, ir::Region* into,
                            ir::Module& to, ir::Cloner& cloner) {
  return Copier(from, into, to, cloner).Copy(body);
}

}  // namespace shardway::compile
