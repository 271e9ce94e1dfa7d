// A room: everything the partitioner knows about one family of operators. See README.md for how to
// add one.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "shardway/spmd/emitter.h"
#include "shardway/spmd/op_rule.h"

namespace shardway::spmd {

// One operator on its way into the per-device program. Operands already have the shardings that
// `rule` and `axes` ask for; a room returns one value of `result_types` for each result. Where a
// reduction factor is split and the rule names how partial results combine, a room returns partial
// results and the partitioner combines them.
struct LocalOp {
  const ir::Op& op;
  const OpRule& rule;
  const FactorAxes& axes;            // how each factor is split
  std::vector<ir::Value*> operands;  // shards
  std::vector<Sharding> operand_shardings;
  std::vector<Sharding> result_shardings;
  std::vector<ir::Type> result_types;  // local
  std::vector<Sharding> wanted;        // of the results in the end; a room may go that way itself
  Emitter& e;
  AxisSet manual = 0;  // for what a room reshards itself

  const Mesh& mesh() const { return e.mesh(); }
  int64_t parts(int factor) const { return e.mesh().SizeOf(axes[factor]); }
  // Whether some shards of this factor end in padding.
  bool uneven(int factor) const { return rule.factors[factor].size % parts(factor) != 0; }
};

using LocalResults = absl::StatusOr<std::vector<ir::Value*>>;

struct Room {
  OpRule (*rule)(const ir::Op& op);
  LocalResults (*emit)(LocalOp& local);
  // Where window factors are split so: bytes that a device sends to exchange edges, and a price for
  // each permute. Null where the rule has no window factors.
  double (*exchange)(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                     const Mesh& mesh) = nullptr;
};

// Of every operator without regions that run programs (while, if, case are control_flow.cc's),
// conversions and constraints aside. Unknown operators get the fallback: replicated operands, the
// operator as it is.
const Room& RoomOf(ir::OpKind kind);

// The operator as it is, on local shapes; its regions are cloned.
LocalResults EmitAsIs(LocalOp& local);
// The same with other attributes.
LocalResults EmitWith(LocalOp& local, ir::AttrDict attributes);

// `x`, a shard under `sharding` of a value of `type`, with its padding along `dim` replaced by the
// scalar `fill`. Nothing is emitted when there is none.
ir::Value* MaskPadding(Emitter& e, ir::Value* x, const ir::Type& type, const Sharding& sharding,
                       int dim, ir::Value* fill);
// `x` with the scalar `fill` from place `count` (an i32 scalar of any sign) on along `dim`.
ir::Value* KeepFirst(Emitter& e, ir::Value* x, int dim, ir::Value* count, ir::Value* fill);

// Copies a region whose operators are plain (the body of a reduction, a comparator): Shardy's
// annotations in it are dropped. It must not use values from outside.
absl::Status CloneBody(const ir::Region& from, ir::Region* to, ir::Module* module);
// Its operators once more at the end of `to`, with `arguments` for its own; what it returns.
absl::StatusOr<std::vector<ir::Value*>> InlineBody(const ir::Region& from,
                                                   absl::Span<ir::Value* const> arguments,
                                                   ir::Region* to, ir::Module* module);

// ---- the rooms ----
OpRule ElementwiseRule(const ir::Op&);
OpRule BroadcastRule(const ir::Op&);
OpRule TransposeRule(const ir::Op&);
OpRule ReshapeRule(const ir::Op&);
LocalResults EmitReshape(LocalOp&);
double ReshapeExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule ReduceRule(const ir::Op&);
LocalResults EmitReduce(LocalOp&);
OpRule DotGeneralRule(const ir::Op&);
LocalResults EmitDotGeneral(LocalOp&);
OpRule IotaRule(const ir::Op&);
LocalResults EmitIota(LocalOp&);
OpRule ConstantRule(const ir::Op&);
LocalResults EmitConstant(LocalOp&);
OpRule SliceRule(const ir::Op&);
LocalResults EmitSlice(LocalOp&);
OpRule DynamicSliceRule(const ir::Op&);
LocalResults EmitDynamicSlice(LocalOp&);
OpRule DynamicUpdateSliceRule(const ir::Op&);
LocalResults EmitDynamicUpdateSlice(LocalOp&);
double SliceExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule PadRule(const ir::Op&);
LocalResults EmitPad(LocalOp&);
double PadExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule ConcatenateRule(const ir::Op&);
LocalResults EmitConcatenate(LocalOp&);
double ConcatenateExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule ReverseRule(const ir::Op&);
LocalResults EmitReverse(LocalOp&);
double ReverseExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule SortRule(const ir::Op&);
LocalResults EmitSort(LocalOp&);
double SortExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule GatherRule(const ir::Op&);
LocalResults EmitGather(LocalOp&);
OpRule ScatterRule(const ir::Op&);
LocalResults EmitScatter(LocalOp&);
OpRule CollectiveRule(const ir::Op&);
LocalResults EmitCollective(LocalOp&);
OpRule PlaceRule(const ir::Op&);
LocalResults EmitPlace(LocalOp&);
OpRule CustomCallRule(const ir::Op&);
LocalResults EmitCustomCall(LocalOp&);
LocalResults EmitHostCallback(LocalOp&);
OpRule ConvolutionRule(const ir::Op&);
LocalResults EmitConvolution(LocalOp&);
double ConvolutionExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule ReduceWindowRule(const ir::Op&);
LocalResults EmitReduceWindow(LocalOp&);
double ReduceWindowExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule SelectAndScatterRule(const ir::Op&);
LocalResults EmitSelectAndScatter(LocalOp&);
double SelectAndScatterExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);
OpRule BatchedLinalgRule(const ir::Op&);
OpRule TriangularSolveRule(const ir::Op&);
LocalResults EmitRng(LocalOp&);
OpRule RngBitGeneratorRule(const ir::Op&);
LocalResults EmitRngBitGenerator(LocalOp&);
OpRule HostTransferRule(const ir::Op&);
LocalResults EmitHostTransfer(LocalOp&);
OpRule FftRule(const ir::Op&);
LocalResults EmitFft(LocalOp&);
double FftExchange(const ir::Op&, const OpRule&, const FactorAxes&, const Mesh&);

}  // namespace shardway::spmd
