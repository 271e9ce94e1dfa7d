// Operators that make or rearrange elements without computing on them.
#include <algorithm>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

void VerifyConstant(Check& c) {
  if (!c.Counts(0)) return;
  const Attribute* attribute = c.op().Find("value");
  const auto* value = attribute == nullptr ? nullptr : attribute->get_if<Constant>();
  if (!c.Require(value != nullptr && value->type == c.out() && value->type.is_tensor() &&
                     value->type.is_static(),
                 "its value is missing or of another type")) {
    return;
  }
  const int64_t bytes = value->splat ? ElementBytes(value->type.element) : value->type.num_bytes();
  c.Require(static_cast<int64_t>(value->bytes.size()) == bytes,
            "its value has the wrong number of bytes");
}

void VerifyIota(Check& c) {
  if (c.Counts(0) && c.AllTensors()) c.IntIn("iota_dimension", 0, c.out().rank());
}

void VerifyBroadcastInDim(Check& c) {
  if (!c.Counts(c.op().kind == OpKind::kBroadcastInDim ? 1 : 2) || !c.AllTensors()) return;
  const Type& in = c.in();
  const Type& out = c.out();
  const auto* dims = c.Dimensions("broadcast_dimensions", out.rank());
  if (dims == nullptr) return;
  c.Require(out.is_static() || c.op().kind == OpKind::kDynamicBroadcastInDim,
            "the size of its result is not known");
  c.Require(in.element == out.element, "its result has another element type");
  if (!c.Require(static_cast<int>(dims->size()) == in.rank(),
                 "its broadcast_dimensions do not match the operand's rank")) {
    return;
  }
  for (int i = 0; i < in.rank(); ++i) {
    c.Require(in.dim(i) == 1 || SameSize(in.dim(i), out.dim((*dims)[i])),
              "a dimension is neither 1 nor the result's");
  }
}

void VerifyBroadcast(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  const auto* sizes = c.List("broadcast_sizes");
  if (sizes == nullptr) return;
  std::vector<Wide> dims(sizes->begin(), sizes->end());
  dims.insert(dims.end(), c.in().dims.begin(), c.in().dims.end());
  c.Require(c.in().element == c.out().element, "its result has another element type");
  c.ResultDims(dims);
}

void VerifyReshape(Check& c) {
  if (!c.Counts(c.op().kind == OpKind::kReshape ? 1 : 2) || !c.AllTensors()) return;
  c.Require(c.in().element == c.out().element, "its result has another element type");
  if (!c.in().is_static() || !c.out().is_static()) return;
  c.Require(c.in().num_elements() == c.out().num_elements(),
            "its result has another number of elements");
}

void VerifyTranspose(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  const Type& in = c.in();
  const auto* permutation = c.Dimensions("permutation", in.rank());
  if (permutation == nullptr || !c.Require(static_cast<int>(permutation->size()) == in.rank(),
                                           "its permutation does not name every dimension")) {
    return;
  }
  std::vector<Wide> dims;
  for (const int64_t p : *permutation) dims.push_back(in.dim(p));
  c.Require(in.element == c.out().element, "its result has another element type");
  c.ResultDims(dims);
}

void VerifyReverse(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  c.Dimensions("dimensions", c.in().rank());
  c.SameAsOperand(0, 0);
}

void VerifySlice(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  const Type& in = c.in();
  const auto* starts = c.List("start_indices", in.rank());
  const auto* limits = c.List("limit_indices", in.rank());
  const auto* strides = c.List("strides", in.rank());
  if (starts == nullptr || limits == nullptr || strides == nullptr) return;
  std::vector<Wide> dims;
  for (int i = 0; i < in.rank(); ++i) {
    const Wide start = (*starts)[i];
    const Wide limit = (*limits)[i];
    const Wide stride = (*strides)[i];
    if (!c.Require(0 <= start && start <= limit && stride >= 1 &&
                       (in.dim(i) == kDynamic || limit <= in.dim(i)),
                   "its bounds are outside of its operand")) {
      return;
    }
    dims.push_back((limit - start + stride - 1) / stride);
  }
  c.Require(in.element == c.out().element, "its result has another element type");
  c.ResultDims(dims);
}

void VerifyPad(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  const Type& in = c.in();
  const auto* low = c.List("edge_padding_low", in.rank());
  const auto* high = c.List("edge_padding_high", in.rank());
  const auto* interior = c.List("interior_padding", in.rank());
  if (low == nullptr || high == nullptr || interior == nullptr) return;
  c.Require(IsScalar(c.in(1)) && c.in(1).element == in.element,
            "its padding value is no scalar of the operand's element type");
  std::vector<Wide> dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (!c.Require((*interior)[i] >= 0, "its interior padding is negative")) return;
    if (in.dim(i) == kDynamic) {
      dims.push_back(kDynamic);
      continue;
    }
    const Wide gaps = in.dim(i) > 0 ? in.dim(i) - 1 : 0;
    const Wide size = Wide{in.dim(i)} + gaps * (*interior)[i] + (*low)[i] + (*high)[i];
    if (!c.Require(size >= 0, "it removes more than there is")) return;
    dims.push_back(size);
  }
  c.Require(in.element == c.out().element, "its result has another element type");
  c.ResultDims(dims);
}

void VerifyConcatenate(Check& c) {
  if (!c.Counts(-1) || !c.AllTensors() || !c.Require(c.num_in() > 0, "it has no operand") ||
      !c.IntIn("dimension", 0, c.in().rank())) {
    return;
  }
  const int64_t along = c.op().Int("dimension");
  std::vector<Wide> dims(c.in().dims.begin(), c.in().dims.end());
  for (size_t i = 0; i < c.num_in(); ++i) {
    const Type& in = c.in(i);
    bool fits = in.rank() == c.in().rank() && in.element == c.out().element;
    for (int d = 0; fits && d < in.rank(); ++d) {
      fits = d == along || SameSize(in.dim(d), c.in().dim(d));
    }
    if (!c.Require(fits, "its operands do not fit together")) return;
    if (i == 0) continue;
    const bool dynamic = dims[along] == kDynamic || in.dim(along) == kDynamic;
    dims[along] = dynamic ? Wide{kDynamic} : dims[along] + in.dim(along);
  }
  c.ResultDims(dims);
}

void VerifyDimensionSize(Check& c) {
  const bool sets = c.op().kind == OpKind::kSetDimensionSize;
  if (!c.Counts(sets ? 2 : 1) || !c.AllTensors()) return;
  c.IntIn("dimension", 0, c.in().rank());
  if (sets) {
    c.Require(IsScalar(c.in(1)), "its size is no scalar");
  } else {
    c.Require(IsScalar(c.out()), "its result is no scalar");
  }
}

}  // namespace

void VerifyShape(Check& c) {
  switch (c.op().kind) {
    case OpKind::kConstant:
      return VerifyConstant(c);
    case OpKind::kIota:
      return VerifyIota(c);
    case OpKind::kBroadcastInDim:
      return VerifyBroadcastInDim(c);
    case OpKind::kBroadcast:
      return VerifyBroadcast(c);
    case OpKind::kReshape:
    case OpKind::kDynamicReshape:
      return VerifyReshape(c);
    case OpKind::kTranspose:
      return VerifyTranspose(c);
    case OpKind::kReverse:
      return VerifyReverse(c);
    case OpKind::kSlice:
      return VerifySlice(c);
    case OpKind::kPad:
      return VerifyPad(c);
    case OpKind::kConcatenate:
      return VerifyConcatenate(c);
    case OpKind::kGetDimensionSize:
    case OpKind::kSetDimensionSize:
      return VerifyDimensionSize(c);
    case OpKind::kDynamicBroadcastInDim:
      return VerifyBroadcastInDim(c);
    case OpKind::kDynamicPad:
      if (c.Counts(5)) c.AllTensors();
      return;
    case OpKind::kDynamicIota:
      if (c.Counts(1) && c.AllTensors()) c.IntIn("iota_dimension", 0, c.out().rank());
      return;
    case OpKind::kRealDynamicSlice:
      if (c.Counts(4)) c.AllTensors();
      return;
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
