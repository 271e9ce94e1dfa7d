// Operators that combine many elements into one, and random numbers.
#include <algorithm>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

// Operands are N inputs of one shape and N scalars; there are N results.
bool InputsAndInits(Check& c) {
  const size_t n = c.num_out();
  if (!c.Counts(-1, -1, 1) || !c.AllTensors() ||
      !c.Require(n >= 1 && c.num_in() == 2 * n,
                 "its operands are not as many inputs and initial values as it has results")) {
    return false;
  }
  std::vector<ElementType> elements;
  for (size_t i = 0; i < n; ++i) {
    const ElementType element = c.in(i).element;
    if (!c.Require(SameShape(c.in(i), c.in(0)), "its inputs differ in shape") ||
        !c.Require(IsScalar(c.in(n + i)), "an initial value is no scalar") ||
        !c.Require(c.in(n + i).element == element && c.out(i).element == element,
                   "an initial value or a result has other elements than its input; convert the "
                   "input first")) {
      return false;
    }
    elements.push_back(element);
  }
  return c.Reducer(*c.op().regions[0], elements);
}

void VerifyReduce(Check& c) {
  if (!InputsAndInits(c)) return;
  const auto* reduced = c.Dimensions("dimensions", c.in().rank());
  if (reduced == nullptr) return;
  std::vector<Wide> dims;
  for (int i = 0; i < c.in().rank(); ++i) {
    if (std::find(reduced->begin(), reduced->end(), i) == reduced->end()) {
      dims.push_back(c.in().dim(i));
    }
  }
  for (size_t i = 0; i < c.num_out(); ++i) c.ResultDims(dims, i);
}

// The number of windows along one dimension.
Wide Windows(Wide size, Wide base_dilation, Wide low, Wide high, Wide window, Wide window_dilation,
             Wide stride) {
  const Wide dilated = size == 0 ? Wide{0} : (size - 1) * base_dilation + 1;
  const Wide padded = dilated + low + high;
  const Wide reach = window == 0 ? Wide{0} : (window - 1) * window_dilation + 1;
  return padded < reach || padded <= 0 ? Wide{0} : (padded - reach) / stride + 1;
}

void VerifyReduceWindow(Check& c) {
  if (!InputsAndInits(c)) return;
  const Type& in = c.in();
  const int rank = in.rank();
  const auto* window = c.List("window_dimensions", rank);
  const auto* strides = c.List("window_strides", rank);
  const auto* base = c.List("base_dilations", rank);
  const auto* dilation = c.List("window_dilations", rank);
  const auto* padding = c.List("padding", 2 * rank);
  if (!c.ok()) return;
  std::vector<Wide> dims;
  for (int i = 0; i < rank; ++i) {
    if (!c.Require(
            (*window)[i] >= 1 && (*strides)[i] >= 1 && (*base)[i] >= 1 && (*dilation)[i] >= 1,
            "a window, stride or dilation is not positive")) {
      return;
    }
    dims.push_back(in.dim(i) == kDynamic
                       ? Wide{kDynamic}
                       : Windows(in.dim(i), (*base)[i], (*padding)[2 * i], (*padding)[2 * i + 1],
                                 (*window)[i], (*dilation)[i], (*strides)[i]));
  }
  for (size_t i = 0; i < c.num_out(); ++i) c.ResultDims(dims, i);
}

void VerifySelectAndScatter(Check& c) {
  if (!c.Counts(3, 1, 2) || !c.AllTensors()) return;
  const Type& in = c.in(0);
  const int rank = in.rank();
  const auto* window = c.List("window_dimensions", rank);
  const auto* strides = c.List("window_strides", rank);
  const auto* padding = c.List("padding", 2 * rank);
  if (!c.ok()) return;
  const ElementType element = in.element;
  if (!c.Require(c.in(1).rank() == rank && IsScalar(c.in(2)),
                 "its source or initial value has another rank") ||
      !c.Require(c.in(1).element == element && c.in(2).element == element,
                 "its source or initial value has other elements than its operand")) {
    return;
  }
  for (int i = 0; i < rank; ++i) {
    if (!c.Require((*window)[i] >= 1 && (*strides)[i] >= 1, "a window or stride is not positive")) {
      return;
    }
    const Wide windows = Windows(in.dim(i), 1, (*padding)[2 * i], (*padding)[2 * i + 1],
                                 (*window)[i], 1, (*strides)[i]);
    c.Require(in.dim(i) == kDynamic || c.in(1).dim(i) == kDynamic || windows == c.in(1).dim(i),
              "its source has another shape than its windows");
  }
  c.SameAsOperand(0, 0);
  if (c.ScalarRegion(*c.op().regions[0], {element, element}, {ElementType::kI1}))
    c.Reducer(*c.op().regions[1], {element});
}

void VerifyMap(Check& c) {
  if (!c.Counts(-1, 1, 1) || !c.AllTensors()) return;
  std::vector<ElementType> elements;
  for (size_t i = 0; i < c.num_in(); ++i) {
    c.Require(SameShape(c.in(i), c.out()), "an operand's shape differs from the result's");
    elements.push_back(c.in(i).element);
  }
  c.Dimensions("dimensions", c.out().rank());
  c.ScalarRegion(*c.op().regions[0], elements, {c.out().element});
}

// Operand 0 keeps its shape; the others are vectors along the feature dimension.
void VerifyBatchNorm(Check& c, size_t operands, size_t results, size_t first_vector,
                     size_t last_vector) {
  if (!c.Counts(static_cast<int>(operands), static_cast<int>(results)) || !c.AllTensors() ||
      !c.IntIn("feature_index", 0, c.in().rank())) {
    return;
  }
  const int64_t features = c.in().dim(static_cast<int>(c.op().Int("feature_index")));
  auto is_vector = [&](const Type& t) { return t.rank() == 1 && SameSize(t.dim(0), features); };
  for (size_t i = first_vector; i < last_vector; ++i) {
    c.Require(is_vector(c.in(i)), "an operand is no vector along its feature dimension");
  }
  for (size_t i = last_vector; i < operands; ++i) {
    c.Require(SameShape(c.in(i), c.in()), "an operand has another shape");
  }
  c.SameAsOperand(0, 0);
  for (size_t i = 1; i < results; ++i) {
    c.Require(is_vector(c.out(i)), "a result is no vector along its feature dimension");
  }
}

void VerifyRng(Check& c) {
  if (!c.Counts(3) || !c.AllTensors()) return;
  c.Require(IsScalar(c.in(0)) && IsScalar(c.in(1)), "its bounds are no scalars");
  c.Require(c.in(2).rank() == 1, "its shape is no vector");
}

void VerifyRngBitGenerator(Check& c) {
  if (!c.Counts(1, 2) || !c.AllTensors()) return;
  c.Require(c.in().rank() == 1, "its state is no vector");
  c.SameAsOperand(0, 0);
}

}  // namespace

void VerifyReduction(Check& c) {
  switch (c.op().kind) {
    case OpKind::kReduce:
      return VerifyReduce(c);
    case OpKind::kReduceWindow:
      return VerifyReduceWindow(c);
    case OpKind::kSelectAndScatter:
      return VerifySelectAndScatter(c);
    case OpKind::kMap:
      return VerifyMap(c);
    case OpKind::kBatchNormInference:
      return VerifyBatchNorm(c, 5, 1, 1, 5);
    case OpKind::kBatchNormTraining:
      return VerifyBatchNorm(c, 3, 3, 1, 3);
    case OpKind::kBatchNormGrad:
      return VerifyBatchNorm(c, 5, 3, 1, 4);
    case OpKind::kRng:
      return VerifyRng(c);
    case OpKind::kRngBitGenerator:
      return VerifyRngBitGenerator(c);
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
