// What the files expand_*.cc are written in: each turns one family of operators into operators that
// have rooms. Private to expand_operators.cc.
//
// A function appends to `b` what computes the operator, and returns a value for each of its
// results: of the result's type, or of a type that says more of it. None at all: the operator
// stays. What is made is checked as what a user hands over is (ir::VerifyOp), so the functions
// check only what they rely on themselves. INVALID_ARGUMENT and UNIMPLEMENTED name the operator and
// the user's line.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/ir/builder.h"
#include "shardway/spmd/constant_ints.h"

namespace shardway::spmd {

using Expansion = absl::StatusOr<std::vector<ir::Value*>>;

// expand_einsum.cc: as one product, with sums before it and a transposition after it.
Expansion ExpandDot(const ir::Op& op, ir::Builder& b);
Expansion ExpandEinsum(const ir::Op& op, ir::Builder& b);  // of one operand or of two

// expand_batch_norm.cc: sums over all dimensions but that of the features, the rest elementwise.
Expansion ExpandBatchNormInference(const ir::Op& op, ir::Builder& b);
Expansion ExpandBatchNormTraining(const ir::Op& op, ir::Builder& b);
Expansion ExpandBatchNormGrad(const ir::Op& op, ir::Builder& b);

// expand_indexing.cc
Expansion ExpandBroadcast(const ir::Op& op, ir::Builder& b);
Expansion ExpandTorchIndexSelect(const ir::Op& op, ir::Builder& b);

// expand_dynamic.cc: what takes its shape as an operand, where that is known after all.
Expansion ExpandShapedByType(const ir::Op& op, ir::Builder& b);  // broadcast, reshape, iota
Expansion ExpandDynamicGather(const ir::Op& op, ir::Builder& b);
Expansion ExpandDynamicPad(const ir::Op& op, ir::Builder& b, ConstantInts& ints);
Expansion ExpandDynamicConv(const ir::Op& op, ir::Builder& b, ConstantInts& ints);
Expansion ExpandRealDynamicSlice(const ir::Op& op, ir::Builder& b, ConstantInts& ints);
Expansion ExpandGetDimensionSize(const ir::Op& op, ir::Builder& b);
Expansion ExpandSetDimensionSize(const ir::Op& op, ConstantInts& ints);

// `x` summed over `dims`.
ir::Value* SumOver(ir::Builder& b, ir::Value* x, std::vector<int64_t> dims);

// "stablehlo.einsum at train.py:3: " and what is wrong with it, or what is not known of it.
absl::Status Malformed(const ir::Op& op, std::string_view what);
absl::Status NotKnown(const ir::Op& op, std::string_view what);

}  // namespace shardway::spmd
