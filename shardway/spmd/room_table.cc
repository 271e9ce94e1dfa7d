// Which room an operator belongs to. The only place that lists them.
#include "shardway/spmd/room.h"

namespace shardway::spmd {

const Room& RoomOf(ir::OpKind kind) {
  static constexpr Room kFallback = {ReplicatedRule, EmitAsIs};
  static constexpr Room kElementwise = {ElementwiseRule, EmitAsIs};
  static constexpr Room kBroadcast = {BroadcastRule, EmitAsIs};
  static constexpr Room kTranspose = {TransposeRule, EmitAsIs};
  static constexpr Room kReshape = {ReshapeRule, EmitReshape, ReshapeExchange};
  static constexpr Room kReduce = {ReduceRule, EmitReduce};
  static constexpr Room kDotGeneral = {DotGeneralRule, EmitDotGeneral};
  static constexpr Room kIota = {IotaRule, EmitIota};
  static constexpr Room kConstant = {ConstantRule, EmitConstant};
  static constexpr Room kSlice = {SliceRule, EmitSlice, SliceExchange};
  static constexpr Room kDynamicSlice = {DynamicSliceRule, EmitDynamicSlice};
  static constexpr Room kDynamicUpdateSlice = {DynamicUpdateSliceRule, EmitDynamicUpdateSlice};
  static constexpr Room kPad = {PadRule, EmitPad, PadExchange};
  static constexpr Room kConcatenate = {ConcatenateRule, EmitConcatenate, ConcatenateExchange};
  static constexpr Room kReverse = {ReverseRule, EmitReverse, ReverseExchange};
  static constexpr Room kSort = {SortRule, EmitSort, SortExchange};
  static constexpr Room kGather = {GatherRule, EmitGather};
  static constexpr Room kScatter = {ScatterRule, EmitScatter};
  static constexpr Room kCollective = {CollectiveRule, EmitCollective};
  static constexpr Room kPlace = {PlaceRule, EmitPlace};
  static constexpr Room kCustomCall = {CustomCallRule, EmitCustomCall};
  static constexpr Room kConvolution = {ConvolutionRule, EmitConvolution, ConvolutionExchange};
  static constexpr Room kReduceWindow = {ReduceWindowRule, EmitReduceWindow, ReduceWindowExchange};
  static constexpr Room kSelectAndScatter = {SelectAndScatterRule, EmitSelectAndScatter,
                                             SelectAndScatterExchange};
  static constexpr Room kLinalg = {BatchedLinalgRule, EmitAsIs};
  static constexpr Room kTriangularSolve = {TriangularSolveRule, EmitAsIs};
  static constexpr Room kRng = {ReplicatedRule, EmitRng};
  static constexpr Room kRngBitGenerator = {RngBitGeneratorRule, EmitRngBitGenerator};
  static constexpr Room kHostTransfer = {HostTransferRule, EmitHostTransfer};
  static constexpr Room kFft = {FftRule, EmitFft, FftExchange};

  using K = ir::OpKind;
  switch (kind) {
    case K::kAbs:
    case K::kAdd:
    case K::kAnd:
    case K::kAtan2:
    case K::kBitcastConvert:
    case K::kCbrt:
    case K::kCeil:
    case K::kClamp:
    case K::kCountLeadingZeros:
    case K::kCompare:
    case K::kComplex:
    case K::kConvert:
    case K::kCosine:
    case K::kDivide:
    case K::kExponential:
    case K::kExponentialMinusOne:
    case K::kFloor:
    case K::kImag:
    case K::kIsFinite:
    case K::kLog:
    case K::kLogPlusOne:
    case K::kLogistic:
    case K::kMap:
    case K::kMaximum:
    case K::kMinimum:
    case K::kMultiply:
    case K::kNegate:
    case K::kNot:
    case K::kOr:
    case K::kPopcnt:
    case K::kPower:
    case K::kReal:
    case K::kReducePrecision:
    case K::kRemainder:
    case K::kRoundNearestEven:
    case K::kRoundNearestAfz:
    case K::kRsqrt:
    case K::kSelect:
    case K::kShiftLeft:
    case K::kShiftRightArithmetic:
    case K::kShiftRightLogical:
    case K::kSign:
    case K::kSine:
    case K::kSqrt:
    case K::kSubtract:
    case K::kTan:
    case K::kTanh:
    case K::kXor:
      return kElementwise;
    case K::kBroadcastInDim:
      return kBroadcast;
    case K::kTranspose:
      return kTranspose;
    case K::kReshape:
      return kReshape;
    case K::kReduce:
      return kReduce;
    case K::kDotGeneral:
      return kDotGeneral;
    case K::kIota:
      return kIota;
    case K::kConstant:
      return kConstant;
    case K::kSlice:
      return kSlice;
    case K::kDynamicSlice:
      return kDynamicSlice;
    case K::kDynamicUpdateSlice:
      return kDynamicUpdateSlice;
    case K::kPad:
      return kPad;
    case K::kConcatenate:
      return kConcatenate;
    case K::kReverse:
      return kReverse;
    case K::kSort:
      return kSort;
    case K::kGather:
      return kGather;
    case K::kScatter:
      return kScatter;
    case K::kAllReduce:
    case K::kAllGather:
    case K::kReduceScatter:
    case K::kAllToAll:
    case K::kCollectivePermute:
    case K::kCollectiveBroadcast:
    case K::kCrossReplicaSum:
      return kCollective;
    case K::kPartitionId:
    case K::kReplicaId:
      return kPlace;
    case K::kCustomCall:
      return kCustomCall;
    case K::kConvolution:
      return kConvolution;
    case K::kReduceWindow:
      return kReduceWindow;
    case K::kSelectAndScatter:
      return kSelectAndScatter;
    case K::kCholesky:
      return kLinalg;
    case K::kTriangularSolve:
      return kTriangularSolve;
    case K::kRng:
      return kRng;
    case K::kRngBitGenerator:
      return kRngBitGenerator;
    case K::kInfeed:
    case K::kOutfeed:
    case K::kSend:
    case K::kRecv:
      return kHostTransfer;
    case K::kFft:
      return kFft;
    default:
      return kFallback;
  }
}

}  // namespace shardway::spmd
