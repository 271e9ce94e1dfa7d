#include "shardway/spmd/constant_ints.h"

#include <algorithm>
#include <utility>

#include "shardway/ir/scalar.h"
#include "shardway/spmd/concatenate.h"

namespace shardway::spmd {
namespace {

constexpr int64_t kMostElements = 1024;  // of a shape, or of the padding of one
constexpr int kDeepest = 128;

// Of the whole range of 64 bits, wrapping around; nullopt where signed and unsigned would differ.
std::optional<int64_t> Apply(ir::OpKind kind, int64_t a, int64_t b) {
  const auto left = static_cast<uint64_t>(a);
  const auto right = static_cast<uint64_t>(b);
  switch (kind) {
    case ir::OpKind::kAdd:
      return static_cast<int64_t>(left + right);
    case ir::OpKind::kSubtract:
      return static_cast<int64_t>(left - right);
    case ir::OpKind::kMultiply:
      return static_cast<int64_t>(left * right);
    default:
      break;
  }
  if (a < 0 || b < 0) return std::nullopt;
  switch (kind) {
    case ir::OpKind::kDivide:
      return b == 0 ? std::nullopt : std::optional<int64_t>(a / b);
    case ir::OpKind::kRemainder:
      return b == 0 ? std::nullopt : std::optional<int64_t>(a % b);
    case ir::OpKind::kMaximum:
      return std::max(a, b);
    case ir::OpKind::kMinimum:
      return std::min(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

ConstantInts::Ints ConstantInts::Find(const ir::Value* v, int depth) {
  const ir::Type& type = v->type;
  if (v->def == nullptr || depth > kDeepest || !type.is_tensor() || !type.is_static() ||
      (!IsInteger(type.element) && type.element != ElementType::kI1) ||
      type.num_elements() > kMostElements) {
    return std::nullopt;
  }
  if (const auto at = known_.find(v); at != known_.end()) return at->second;
  Ints ints = Compute(*v->def, depth);
  if (ints) {
    for (int64_t& i : *ints)
      i = ir::IntFromElement(type.element, ir::ElementFromInt(type.element, i));
  }
  known_.emplace(v, ints);
  return ints;
}

ConstantInts::Ints ConstantInts::Compute(const ir::Op& op, int depth) {
  auto operand = [&](int i) { return Find(op.operand(i), depth + 1); };
  switch (op.kind) {
    case ir::OpKind::kConstant:
      return op.Find("value")->get_if<ir::Constant>()->Ints();
    case ir::OpKind::kReshape:
    case ir::OpKind::kConvert:
      return operand(0);
    case ir::OpKind::kBroadcastInDim: {
      const Ints ints = operand(0);
      if (!ints || ints->size() != 1) return std::nullopt;
      return std::vector<int64_t>(op.result()->type.num_elements(), ints->front());
    }
    case ir::OpKind::kConcatenate: {
      std::vector<int64_t> all;
      if (op.result()->type.rank() != 1) return std::nullopt;
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Ints ints = operand(static_cast<int>(i));
        if (!ints) return std::nullopt;
        all.insert(all.end(), ints->begin() + StartOf(op, i), ints->begin() + LimitOf(op, i));
      }
      return all;
    }
    case ir::OpKind::kSlice: {
      const Ints ints = operand(0);
      if (!ints || op.result()->type.rank() != 1) return std::nullopt;
      std::vector<int64_t> some;
      const int64_t limit = op.IntList("limit_indices")[0];
      for (int64_t i = op.IntList("start_indices")[0]; i < limit; i += op.IntList("strides")[0])
        some.push_back((*ints)[i]);
      return some;
    }
    case ir::OpKind::kAdd:
    case ir::OpKind::kSubtract:
    case ir::OpKind::kMultiply:
    case ir::OpKind::kDivide:
    case ir::OpKind::kRemainder:
    case ir::OpKind::kMaximum:
    case ir::OpKind::kMinimum: {
      Ints a = operand(0);
      const Ints b = a ? operand(1) : std::nullopt;
      if (!b) return std::nullopt;
      for (size_t i = 0; i < a->size(); ++i) {
        const std::optional<int64_t> one = Apply(op.kind, (*a)[i], (*b)[i]);
        if (!one) return std::nullopt;
        (*a)[i] = *one;
      }
      return a;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace shardway::spmd
