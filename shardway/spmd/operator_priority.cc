#include "shardway/spmd/operator_priority.h"

namespace shardway::spmd {
namespace {

constexpr OperatorPriority kElementwise = {0, 0};
constexpr OperatorPriority kRearranging = {1, 1};
constexpr OperatorPriority kOther = {2, 2};
constexpr OperatorPriority kBroadcast = {2, 3};
constexpr OperatorPriority kReduction = {3, 2};

// sdy.propagation_barrier says which directions it lets pass, one bit for each.
OperatorPriority OfBarrier(const ir::Op& op) {
  constexpr int64_t kForward = 1;
  constexpr int64_t kBackward = 2;
  const int64_t allowed = op.Int("allowed_direction");
  return {(allowed & kBackward) != 0 ? 0 : kNeverPropagates,
          (allowed & kForward) != 0 ? 0 : kNeverPropagates};
}

}  // namespace

OperatorPriority PriorityOf(const ir::Op& op) {
  using K = ir::OpKind;
  switch (op.kind) {
    case K::kSdyPropagationBarrier:
      return OfBarrier(op);
    case K::kReshape:
    case K::kTranspose:
    case K::kReverse:
    case K::kBitcastConvert:
      return kRearranging;
    case K::kBroadcastInDim:
      return kBroadcast;
    case K::kCustomCall:
      return IsConversion(op) ? kRearranging : kOther;
    case K::kReduce:
      return kReduction;
    case K::kAllGather:
    case K::kAllReduce:
    case K::kAllToAll:
    case K::kCholesky:
    case K::kCollectiveBroadcast:
    case K::kCollectivePermute:
    case K::kConcatenate:
    case K::kConvolution:
    case K::kCrossReplicaSum:
    case K::kDotGeneral:
    case K::kDynamicSlice:
    case K::kDynamicUpdateSlice:
    case K::kFft:
    case K::kGather:
    case K::kPad:
    case K::kReduceScatter:
    case K::kReduceWindow:
    case K::kScatter:
    case K::kSelectAndScatter:
    case K::kSlice:
    case K::kSort:
    case K::kTriangularSolve:
      return kOther;
    default:
      return kElementwise;  // what is not known has only dimensions that need replication
  }
}

}  // namespace shardway::spmd
