#include <algorithm>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

// The element types that an operator computes with.
enum Elements : uint8_t { kBool = 1, kInt = 2, kFloat = 4, kComplex = 8, kAny = 15 };

int ElementsOf(OpKind kind) {
  switch (kind) {
    case OpKind::kAnd:
    case OpKind::kNot:
    case OpKind::kOr:
    case OpKind::kXor:
      return kBool | kInt;
    case OpKind::kCountLeadingZeros:
    case OpKind::kPopcnt:
    case OpKind::kShiftLeft:
    case OpKind::kShiftRightArithmetic:
    case OpKind::kShiftRightLogical:
      return kInt;
    case OpKind::kCeil:
    case OpKind::kFloor:
    case OpKind::kIsFinite:
    case OpKind::kReducePrecision:
    case OpKind::kRoundNearestAfz:
    case OpKind::kRoundNearestEven:
      return kFloat;
    case OpKind::kAtan2:
    case OpKind::kCbrt:
    case OpKind::kCosine:
    case OpKind::kExponential:
    case OpKind::kExponentialMinusOne:
    case OpKind::kImag:
    case OpKind::kLog:
    case OpKind::kLogPlusOne:
    case OpKind::kLogistic:
    case OpKind::kReal:
    case OpKind::kRsqrt:
    case OpKind::kSine:
    case OpKind::kSqrt:
    case OpKind::kTan:
    case OpKind::kTanh:
      return kFloat | kComplex;
    case OpKind::kAbs:
    case OpKind::kDivide:
    case OpKind::kNegate:
    case OpKind::kPower:
    case OpKind::kRemainder:
    case OpKind::kSign:
    case OpKind::kSubtract:
      return kInt | kFloat | kComplex;
    default:
      return kAny;
  }
}

void VerifyElements(Check& c) {
  if (!c.ok() || c.num_in() == 0 || !c.in().is_tensor()) return;
  const ElementType type = c.in().element;
  const int kind = IsInteger(type)   ? kInt
                   : IsFloat(type)   ? kFloat
                   : IsComplex(type) ? kComplex
                                     : kBool;
  c.Require((ElementsOf(c.op().kind) & kind) != 0, "it does not compute with such elements");
}

// One operand, a result of its type.
void VerifyUnary(Check& c) {
  if (c.Counts(1) && c.AllTensors()) c.SameAsOperand(0, 0);
}

void VerifyBinary(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  c.Require(SameType(c.in(0), c.in(1)), "its operands differ in type");
  c.SameAsOperand(0, 0);
}

// As many operands as given, all of the result's shape, with element types of their own.
void VerifyShapes(Check& c, int operands) {
  if (!c.Counts(operands) || !c.AllTensors()) return;
  for (size_t i = 0; i < c.num_in(); ++i) {
    c.Require(SameShape(c.in(i), c.out()), "an operand's shape differs from the result's");
  }
}

void VerifyCompare(Check& c) {
  VerifyShapes(c, 2);
  if (!c.ok()) return;
  c.Require(c.in(0).element == c.in(1).element, "its operands differ in type");
  c.Require(c.out().element == ElementType::kI1, "its result is not boolean");
  c.Require(!c.op().String("comparison_direction").empty(), "it has no direction");
}

void VerifySelect(Check& c) {
  if (!c.Counts(3) || !c.AllTensors()) return;
  c.Require(c.in(0).element == ElementType::kI1, "its predicate is not boolean");
  c.Require(c.in(0).rank() == 0 || SameShape(c.in(0), c.out()), "its predicate has another shape");
  c.Require(SameType(c.in(1), c.in(2)), "its operands differ in type");
  c.SameAsOperand(0, 1);
}

void VerifyClamp(Check& c) {
  if (!c.Counts(3) || !c.AllTensors()) return;
  for (const size_t bound : {0, 2}) {
    c.Require(c.in(bound).element == c.in(1).element &&
                  (c.in(bound).rank() == 0 || SameShape(c.in(bound), c.in(1))),
              "a bound has another type than the operand");
  }
  c.SameAsOperand(0, 1);
}

void VerifyPredicate(Check& c) {
  VerifyShapes(c, 1);
  if (c.ok()) c.Require(c.out().element == ElementType::kI1, "its result is not boolean");
}

// The last dimension holds the parts of an element when sizes differ.
void VerifyBitcast(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  const Type& in = c.in();
  const Type& out = c.out();
  const int in_bits = ElementBits(in.element);
  const int out_bits = ElementBits(out.element);
  if (in_bits == out_bits) {
    c.Require(SameShape(in, out), "its result has another shape");
    return;
  }
  const Type& narrow = in_bits < out_bits ? in : out;
  const Type& wide = in_bits < out_bits ? out : in;
  const int parts = std::max(in_bits, out_bits) / std::max(1, std::min(in_bits, out_bits));
  bool fits = narrow.rank() == wide.rank() + 1 && SameSize(narrow.dims.back(), parts);
  for (int i = 0; fits && i < wide.rank(); ++i) fits = SameSize(narrow.dim(i), wide.dim(i));
  c.Require(fits, "its result has another shape");
}

}  // namespace

void VerifyElementwise(Check& c) {
  VerifyElements(c);
  switch (c.op().kind) {
    case OpKind::kAdd:
    case OpKind::kAnd:
    case OpKind::kAtan2:
    case OpKind::kDivide:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kMultiply:
    case OpKind::kOr:
    case OpKind::kPower:
    case OpKind::kRemainder:
    case OpKind::kShiftLeft:
    case OpKind::kShiftRightArithmetic:
    case OpKind::kShiftRightLogical:
    case OpKind::kSubtract:
    case OpKind::kXor:
      return VerifyBinary(c);
    case OpKind::kCbrt:
    case OpKind::kCeil:
    case OpKind::kCosine:
    case OpKind::kCountLeadingZeros:
    case OpKind::kExponential:
    case OpKind::kExponentialMinusOne:
    case OpKind::kFloor:
    case OpKind::kLog:
    case OpKind::kLogPlusOne:
    case OpKind::kLogistic:
    case OpKind::kNegate:
    case OpKind::kNot:
    case OpKind::kPopcnt:
    case OpKind::kReducePrecision:
    case OpKind::kRoundNearestAfz:
    case OpKind::kRoundNearestEven:
    case OpKind::kRsqrt:
    case OpKind::kSign:
    case OpKind::kSine:
    case OpKind::kSqrt:
    case OpKind::kTan:
    case OpKind::kTanh:
      return VerifyUnary(c);
    case OpKind::kAbs:
    case OpKind::kConvert:
    case OpKind::kImag:
    case OpKind::kReal:
    case OpKind::kUniformDequantize:
    case OpKind::kUniformQuantize:
      return VerifyShapes(c, 1);
    case OpKind::kComplex:
      return VerifyShapes(c, 2);
    case OpKind::kIsFinite:
      return VerifyPredicate(c);
    case OpKind::kCompare:
      return VerifyCompare(c);
    case OpKind::kSelect:
      return VerifySelect(c);
    case OpKind::kClamp:
      return VerifyClamp(c);
    case OpKind::kBitcastConvert:
      return VerifyBitcast(c);
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
