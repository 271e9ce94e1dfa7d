#include "shardway/spmd/linearity.h"

namespace shardway::spmd {

Linearity LinearityOf(ir::OpKind kind) {
  switch (kind) {
    case ir::OpKind::kBroadcastInDim:
    case ir::OpKind::kConvert:
    case ir::OpKind::kDivide:
    case ir::OpKind::kNegate:
    case ir::OpKind::kReduce:
    case ir::OpKind::kReshape:
    case ir::OpKind::kTranspose:
      return {LinearIn::kFirst, true};
    case ir::OpKind::kDynamicSlice:
    case ir::OpKind::kGather:
    case ir::OpKind::kImag:
    case ir::OpKind::kPad:
    case ir::OpKind::kReal:
    case ir::OpKind::kReverse:
    case ir::OpKind::kSlice:
      return {LinearIn::kFirst, false};
    case ir::OpKind::kMultiply:
      return {LinearIn::kOne, true};
    case ir::OpKind::kAdd:
    case ir::OpKind::kSubtract:
      return {LinearIn::kAll, true};
    case ir::OpKind::kConcatenate:
      return {LinearIn::kAll, false};
    case ir::OpKind::kDynamicUpdateSlice:
      return {LinearIn::kFirstTwo, true};
    case ir::OpKind::kSelect:
      return {LinearIn::kChosen, false};
    default:
      return {};
  }
}

}  // namespace shardway::spmd
