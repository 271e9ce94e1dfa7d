// The `native` back end's spelling of collectives: StableHLO's own, over flattened device ids.
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {
namespace {

using collective::Kind;
using collective::Reduction;

ir::Attribute IntMatrix(const std::vector<std::vector<int64_t>>& rows, size_t width) {
  std::vector<int64_t> flat;
  for (const auto& row : rows) {
    for (size_t i = 0; i < width; ++i) flat.push_back(i < row.size() ? row[i] : -1);
  }
  const int64_t dims[] = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  return ir::Constant::FromInts(ir::Type::Tensor(ElementType::kI64, dims), flat);
}

std::vector<std::vector<int64_t>> Lists(const collective::Groups& groups) {
  if (!groups.lists.empty()) return groups.lists;
  std::vector<std::vector<int64_t>> lists;
  for (int64_t d = 0; d < groups.num_devices(); ++d) {
    auto members = groups.MembersOf(d);
    if (!members.empty() && members[0] == d) lists.push_back(std::move(members));
  }
  return lists;
}

// XLA cuts an all-to-all's operand into pieces and looks through a pad or a concatenation for each
// of them; its verifier then refuses pieces of which one has another layout (a gather's has).
ir::Value* AsOnePiece(ir::Builder& b, ir::Value* x) {
  const bool composed = x->def != nullptr && (x->def->kind == ir::OpKind::kPad ||
                                              x->def->kind == ir::OpKind::kConcatenate);
  if (!composed) return x;
  return b.Barrier(x);
}

}  // namespace

void BuildReducer(ir::Module* module, ir::Region* region, Reduction reduction,
                  ElementType element) {
  const ir::Type type = ir::Type::Scalar(element);
  ir::Value* a = module->AddArgument(region, type);
  ir::Value* c = module->AddArgument(region, type);
  ir::OpKind kind = ir::OpKind::kAdd;
  switch (reduction) {
    case Reduction::kNone:
    case Reduction::kSum:
      kind = ir::OpKind::kAdd;
      break;
    case Reduction::kProduct:
      kind = ir::OpKind::kMultiply;
      break;
    case Reduction::kMin:
      kind = ir::OpKind::kMinimum;
      break;
    case Reduction::kMax:
      kind = ir::OpKind::kMaximum;
      break;
    case Reduction::kAnd:
      kind = ir::OpKind::kAnd;
      break;
    case Reduction::kOr:
      kind = ir::OpKind::kOr;
      break;
    case Reduction::kXor:
      kind = ir::OpKind::kXor;
      break;
  }
  ir::Builder b(module, region);
  ir::Value* result = b.Binary(kind, a, c);
  b.Return({&result, 1});
}

ir::Op* Emitter::EmitNative(const collective::Spec& spec, absl::Span<ir::Value* const> operands,
                            absl::Span<const ir::Type> results) {
  ir::AttrDict attributes;
  if (spec.kind == Kind::kCollectivePermute) {
    std::vector<int64_t> pairs;
    // Permutes run among the partitions of one replica, by partition id.
    for (auto [from, to] : collective::DevicePairs(spec)) {
      if (from < mesh_->num_devices()) pairs.insert(pairs.end(), {from, to});
    }
    ir::Set(attributes, "source_target_pairs", std::move(pairs));
    return builder_.Create(ir::OpKind::kCollectivePermute, operands, results,
                           std::move(attributes));
  }
  const auto lists = Lists(spec.groups);
  size_t width = 0;
  for (const auto& list : lists) width = std::max(width, list.size());
  ir::Set(attributes, "replica_groups", IntMatrix(lists, width));
  switch (spec.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      ir::Set(attributes, "use_global_device_ids", true);
      if (spec.kind == Kind::kReduceScatter) ir::Set(attributes, "scatter_dimension", spec.dim0);
      ir::Op* op = builder_.Create(
          spec.kind == Kind::kAllReduce ? ir::OpKind::kAllReduce : ir::OpKind::kReduceScatter,
          operands, results, std::move(attributes));
      BuildReducer(module_, module_->AddRegion(op), spec.reduction, operands[0]->type.element);
      return op;
    }
    case Kind::kAllGather:
      ir::Set(attributes, "use_global_device_ids", true);
      ir::Set(attributes, "all_gather_dim", spec.dim0);
      return builder_.Create(ir::OpKind::kAllGather, operands, results, std::move(attributes));
    case Kind::kAllToAll: {
      ir::Set(attributes, "split_dimension", spec.dim0);
      ir::Set(attributes, "concat_dimension", spec.dim1);
      ir::Set(attributes, "split_count", spec.groups.group_size());
      std::vector<ir::Value*> whole;
      for (ir::Value* x : operands) whole.push_back(AsOnePiece(builder_, x));
      return builder_.Create(ir::OpKind::kAllToAll, whole, results, std::move(attributes));
    }
    case Kind::kCollectiveBroadcast:
      return builder_.Create(ir::OpKind::kCollectiveBroadcast, operands, results,
                             std::move(attributes));
    case Kind::kRaggedAllToAll:
    case Kind::kCollectivePermute:
      break;
  }
  // ragged_all_to_all is a custom call in StableHLO.
  ir::AttrDict config;
  ir::Set(config, "replica_groups", IntMatrix(lists, width));
  ir::Erase(attributes, "replica_groups");
  ir::Set(attributes, "api_version", ir::TypedInt{ElementType::kI32, 4});
  ir::Set(attributes, "backend_config", std::make_shared<const ir::AttrDict>(std::move(config)));
  ir::Set(attributes, "call_target_name", std::string("ragged_all_to_all"));
  return builder_.Create(ir::OpKind::kCustomCall, operands, results, std::move(attributes));
}

}  // namespace shardway::spmd
