// The operators of the IR: the 118 of StableHLO, func.call and func.return, and Shardy's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardway::ir {

// X(enumerator, "name in MLIR")
#define SHARDWAY_IR_OPS(X)                                       \
  X(Abs, "stablehlo.abs")                                        \
  X(Add, "stablehlo.add")                                        \
  X(AfterAll, "stablehlo.after_all")                             \
  X(AllGather, "stablehlo.all_gather")                           \
  X(AllReduce, "stablehlo.all_reduce")                           \
  X(AllToAll, "stablehlo.all_to_all")                            \
  X(And, "stablehlo.and")                                        \
  X(AsyncStart, "stablehlo.async_start")                         \
  X(AsyncDone, "stablehlo.async_done")                           \
  X(Atan2, "stablehlo.atan2")                                    \
  X(BatchNormGrad, "stablehlo.batch_norm_grad")                  \
  X(BatchNormInference, "stablehlo.batch_norm_inference")        \
  X(BatchNormTraining, "stablehlo.batch_norm_training")          \
  X(BitcastConvert, "stablehlo.bitcast_convert")                 \
  X(BroadcastInDim, "stablehlo.broadcast_in_dim")                \
  X(Broadcast, "stablehlo.broadcast")                            \
  X(Case, "stablehlo.case")                                      \
  X(Cbrt, "stablehlo.cbrt")                                      \
  X(Ceil, "stablehlo.ceil")                                      \
  X(Cholesky, "stablehlo.cholesky")                              \
  X(Clamp, "stablehlo.clamp")                                    \
  X(CountLeadingZeros, "stablehlo.count_leading_zeros")          \
  X(CollectiveBroadcast, "stablehlo.collective_broadcast")       \
  X(CollectiveReduce, "stablehlo.collective_reduce")             \
  X(CollectivePermute, "stablehlo.collective_permute")           \
  X(Compare, "stablehlo.compare")                                \
  X(Complex, "stablehlo.complex")                                \
  X(Composite, "stablehlo.composite")                            \
  X(Concatenate, "stablehlo.concatenate")                        \
  X(Constant, "stablehlo.constant")                              \
  X(Convert, "stablehlo.convert")                                \
  X(Convolution, "stablehlo.convolution")                        \
  X(Cosine, "stablehlo.cosine")                                  \
  X(CreateToken, "stablehlo.create_token")                       \
  X(CrossReplicaSum, "stablehlo.cross-replica-sum")              \
  X(CustomCall, "stablehlo.custom_call")                         \
  X(Divide, "stablehlo.divide")                                  \
  X(DotGeneral, "stablehlo.dot_general")                         \
  X(Dot, "stablehlo.dot")                                        \
  X(DynamicBroadcastInDim, "stablehlo.dynamic_broadcast_in_dim") \
  X(DynamicConv, "stablehlo.dynamic_conv")                       \
  X(DynamicGather, "stablehlo.dynamic_gather")                   \
  X(DynamicIota, "stablehlo.dynamic_iota")                       \
  X(DynamicPad, "stablehlo.dynamic_pad")                         \
  X(DynamicReshape, "stablehlo.dynamic_reshape")                 \
  X(DynamicSlice, "stablehlo.dynamic_slice")                     \
  X(DynamicUpdateSlice, "stablehlo.dynamic_update_slice")        \
  X(Einsum, "stablehlo.einsum")                                  \
  X(Exponential, "stablehlo.exponential")                        \
  X(ExponentialMinusOne, "stablehlo.exponential_minus_one")      \
  X(Fft, "stablehlo.fft")                                        \
  X(Floor, "stablehlo.floor")                                    \
  X(Gather, "stablehlo.gather")                                  \
  X(GetDimensionSize, "stablehlo.get_dimension_size")            \
  X(GetTupleElement, "stablehlo.get_tuple_element")              \
  X(If, "stablehlo.if")                                          \
  X(Imag, "stablehlo.imag")                                      \
  X(Infeed, "stablehlo.infeed")                                  \
  X(Iota, "stablehlo.iota")                                      \
  X(IsFinite, "stablehlo.is_finite")                             \
  X(Log, "stablehlo.log")                                        \
  X(LogPlusOne, "stablehlo.log_plus_one")                        \
  X(Logistic, "stablehlo.logistic")                              \
  X(Map, "stablehlo.map")                                        \
  X(Maximum, "stablehlo.maximum")                                \
  X(Minimum, "stablehlo.minimum")                                \
  X(Multiply, "stablehlo.multiply")                              \
  X(Negate, "stablehlo.negate")                                  \
  X(Not, "stablehlo.not")                                        \
  X(OptimizationBarrier, "stablehlo.optimization_barrier")       \
  X(Or, "stablehlo.or")                                          \
  X(Outfeed, "stablehlo.outfeed")                                \
  X(Pad, "stablehlo.pad")                                        \
  X(PartitionId, "stablehlo.partition_id")                       \
  X(Popcnt, "stablehlo.popcnt")                                  \
  X(Power, "stablehlo.power")                                    \
  X(RealDynamicSlice, "stablehlo.real_dynamic_slice")            \
  X(Real, "stablehlo.real")                                      \
  X(Recv, "stablehlo.recv")                                      \
  X(Reduce, "stablehlo.reduce")                                  \
  X(ReducePrecision, "stablehlo.reduce_precision")               \
  X(ReduceScatter, "stablehlo.reduce_scatter")                   \
  X(ReduceWindow, "stablehlo.reduce_window")                     \
  X(Remainder, "stablehlo.remainder")                            \
  X(ReplicaId, "stablehlo.replica_id")                           \
  X(Reshape, "stablehlo.reshape")                                \
  X(Return, "stablehlo.return")                                  \
  X(Reverse, "stablehlo.reverse")                                \
  X(RngBitGenerator, "stablehlo.rng_bit_generator")              \
  X(Rng, "stablehlo.rng")                                        \
  X(RoundNearestEven, "stablehlo.round_nearest_even")            \
  X(RoundNearestAfz, "stablehlo.round_nearest_afz")              \
  X(Rsqrt, "stablehlo.rsqrt")                                    \
  X(Scatter, "stablehlo.scatter")                                \
  X(SelectAndScatter, "stablehlo.select_and_scatter")            \
  X(Select, "stablehlo.select")                                  \
  X(Send, "stablehlo.send")                                      \
  X(SetDimensionSize, "stablehlo.set_dimension_size")            \
  X(ShiftLeft, "stablehlo.shift_left")                           \
  X(ShiftRightArithmetic, "stablehlo.shift_right_arithmetic")    \
  X(ShiftRightLogical, "stablehlo.shift_right_logical")          \
  X(Sign, "stablehlo.sign")                                      \
  X(Sine, "stablehlo.sine")                                      \
  X(Slice, "stablehlo.slice")                                    \
  X(Sort, "stablehlo.sort")                                      \
  X(Sqrt, "stablehlo.sqrt")                                      \
  X(Subtract, "stablehlo.subtract")                              \
  X(Tan, "stablehlo.tan")                                        \
  X(Tanh, "stablehlo.tanh")                                      \
  X(TorchIndexSelect, "stablehlo.torch_index_select")            \
  X(Transpose, "stablehlo.transpose")                            \
  X(TriangularSolve, "stablehlo.triangular_solve")               \
  X(Tuple, "stablehlo.tuple")                                    \
  X(UnaryEinsum, "stablehlo.unary_einsum")                       \
  X(UniformDequantize, "stablehlo.uniform_dequantize")           \
  X(UniformQuantize, "stablehlo.uniform_quantize")               \
  X(While, "stablehlo.while")                                    \
  X(Xor, "stablehlo.xor")                                        \
  X(Call, "func.call")                                           \
  X(FuncReturn, "func.return")                                   \
  X(SdyShardingConstraint, "sdy.sharding_constraint")            \
  X(SdyReshard, "sdy.reshard")                                   \
  X(SdyShardingGroup, "sdy.sharding_group")                      \
  X(SdyPropagationBarrier, "sdy.propagation_barrier")            \
  X(SdyManualComputation, "sdy.manual_computation")              \
  X(SdyNamedComputation, "sdy.named_computation")                \
  X(SdyDataFlowEdge, "sdy.data_flow_edge")                       \
  X(SdyConstant, "sdy.constant")                                 \
  X(SdyAllGather, "sdy.all_gather")                              \
  X(SdyAllReduce, "sdy.all_reduce")                              \
  X(SdyAllSlice, "sdy.all_slice")                                \
  X(SdyAllToAll, "sdy.all_to_all")                               \
  X(SdyCollectivePermute, "sdy.collective_permute")              \
  X(SdyReduceScatter, "sdy.reduce_scatter")                      \
  X(SdyReplicatedToUnreduced, "sdy.replicated_to_unreduced")     \
  X(SdyShardedToUnreduced, "sdy.sharded_to_unreduced")           \
  X(SdyReturn, "sdy.return")

enum class OpKind : uint16_t {
#define SHARDWAY_IR_ENUMERATOR(kind, name) k##kind,
  SHARDWAY_IR_OPS(SHARDWAY_IR_ENUMERATOR)
#undef SHARDWAY_IR_ENUMERATOR
};
#define SHARDWAY_IR_COUNT(kind, name) +1
inline constexpr int kNumOpKinds = 0 SHARDWAY_IR_OPS(SHARDWAY_IR_COUNT);
#undef SHARDWAY_IR_COUNT

// "stablehlo.add". Never fails.
std::string_view OpKindName(OpKind kind);
// The inverse; nullopt for an unknown name.
std::optional<OpKind> OpKindFromName(std::string_view name);

}  // namespace shardway::ir
