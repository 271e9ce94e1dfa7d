// Operators that take a shape, or what makes one, as an operand. StableHLO requires it to agree
// with the type of the result, so where that is static and says enough, the operand need not be
// known.
#include <algorithm>
#include <optional>
#include <utility>

#include "shardway/spmd/expansion.h"

namespace shardway::spmd {
namespace {

using Ints = std::optional<std::vector<int64_t>>;

std::vector<int64_t> DimsOf(const ir::Type& type) { return {type.dims.begin(), type.dims.end()}; }

// `op` as another operator, of its first `operands` operands.
std::vector<ir::Value*> As(ir::OpKind kind, const ir::Op& op, size_t operands, ir::Builder& b,
                           ir::AttrDict attributes) {
  const ir::Type& type = op.result()->type;
  return b
      .Create(kind, absl::MakeConstSpan(op.operands).first(operands), {&type, 1},
              std::move(attributes))
      ->results;
}

absl::Status SizeNotKnown(const ir::Op& op) { return NotKnown(op, "the size of its result is"); }

bool Fits(const Ints& ints, const ir::Type& of) {
  return ints && static_cast<int>(ints->size()) == of.rank();
}

}  // namespace

Expansion ExpandShapedByType(const ir::Op& op, ir::Builder& b) {
  if (!op.result()->type.is_static()) return SizeNotKnown(op);
  ir::AttrDict attributes = op.attributes;
  switch (op.kind) {
    case ir::OpKind::kDynamicIota:
      return As(ir::OpKind::kIota, op, 0, b, std::move(attributes));
    case ir::OpKind::kDynamicReshape:
      return As(ir::OpKind::kReshape, op, 1, b, std::move(attributes));
    default:
      ir::Erase(attributes, "known_expanding_dimensions");
      ir::Erase(attributes, "known_nonexpanding_dimensions");
      return As(ir::OpKind::kBroadcastInDim, op, 1, b, std::move(attributes));
  }
}

// A window has the result's size along its dimensions there, and 1 along all others.
Expansion ExpandDynamicGather(const ir::Op& op, ir::Builder& b) {
  const ir::Type& type = op.result()->type;
  if (!type.is_static()) return SizeNotKnown(op);
  const std::vector<int64_t>& offset = op.IntList("offset_dims");
  const std::vector<int64_t>& collapsed = op.IntList("collapsed_slice_dims");
  const std::vector<int64_t>& batching = op.IntList("operand_batching_dims");
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (int64_t d = 0; d < op.operand(0)->type.rank(); ++d) {
    const bool dropped = std::count(collapsed.begin(), collapsed.end(), d) != 0 ||
                         std::count(batching.begin(), batching.end(), d) != 0;
    sizes.push_back(dropped ? 1 : type.dims[offset[next++]]);
  }
  ir::AttrDict attributes = op.attributes;
  ir::Set(attributes, "slice_sizes", std::move(sizes));
  return As(ir::OpKind::kGather, op, 2, b, std::move(attributes));
}

Expansion ExpandDynamicPad(const ir::Op& op, ir::Builder& b, ConstantInts& ints) {
  if (!op.result()->type.is_static()) return SizeNotKnown(op);
  ir::AttrDict attributes = op.attributes;
  int operand = 2;
  for (const char* name : {"edge_padding_low", "edge_padding_high", "interior_padding"}) {
    Ints padding = ints.Of(op.operand(operand++));
    if (!padding) return NotKnown(op, "its padding is");
    ir::Set(attributes, name, *std::move(padding));
  }
  return As(ir::OpKind::kPad, op, 2, b, std::move(attributes));
}

Expansion ExpandDynamicConv(const ir::Op& op, ir::Builder& b, ConstantInts& ints) {
  if (!op.result()->type.is_static()) return SizeNotKnown(op);
  Ints padding = ints.Of(op.operand(2));
  if (!padding) return NotKnown(op, "its padding is");
  ir::AttrDict attributes = op.attributes;
  ir::Set(attributes, "padding", *std::move(padding));
  return As(ir::OpKind::kConvolution, op, 2, b, std::move(attributes));
}

// Of starts that are not known, but give a result of known size: a dynamic_slice of all that the
// strides step over, then the elements that they step on.
Expansion ExpandRealDynamicSlice(const ir::Op& op, ir::Builder& b, ConstantInts& ints) {
  ir::Value* x = op.operand(0);
  const ir::Type& type = op.result()->type;
  const Ints starts = ints.Of(op.operand(1));
  const Ints limits = ints.Of(op.operand(2));
  const Ints strides = ints.Of(op.operand(3));
  if (!type.is_static()) return SizeNotKnown(op);
  if (!strides) return NotKnown(op, "its strides are");
  if (!Fits(strides, x->type) || !Fits(strides, type) ||
      std::any_of(strides->begin(), strides->end(), [](int64_t s) { return s < 1; })) {
    return Malformed(op, "its strides do not fit its operand");
  }
  if (Fits(starts, x->type) && Fits(limits, x->type)) {
    ir::AttrDict attributes;
    ir::Set(attributes, "start_indices", *starts);
    ir::Set(attributes, "limit_indices", *limits);
    ir::Set(attributes, "strides", *strides);
    return As(ir::OpKind::kSlice, op, 1, b, std::move(attributes));
  }
  const ir::Type& places = op.operand(1)->type;
  if (places.dims != ir::Dims{x->type.rank()})
    return Malformed(op, "its start indices do not fit its operand");
  std::vector<ir::Value*> scalars;
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < x->type.rank(); ++d) {
    scalars.push_back(b.Reshape(b.Slice(op.operand(1), {d}, {d + 1}), {}));
    const int64_t n = type.dims[d];
    const int64_t stride = (*strides)[d];
    const __int128 reach = n == 0 ? 0 : static_cast<__int128>(n - 1) * stride + 1;
    if (reach > x->type.dims[d]) return Malformed(op, "its result reaches over its operand");
    sizes.push_back(static_cast<int64_t>(reach));
  }
  ir::Value* all = b.DynamicSlice(x, scalars, sizes);
  if (sizes == DimsOf(type)) return std::vector<ir::Value*>{all};
  return std::vector<ir::Value*>{b.Slice(all, std::vector<int64_t>(sizes.size()), sizes, *strides)};
}

Expansion ExpandGetDimensionSize(const ir::Op& op, ir::Builder& b) {
  const int64_t size = op.operand(0)->type.dims[op.Int("dimension")];
  if (size == ir::kDynamic) return NotKnown(op, "the size is");
  return std::vector<ir::Value*>{b.SplatInt(op.result()->type, size)};
}

// To the size that it has.
Expansion ExpandSetDimensionSize(const ir::Op& op, ConstantInts& ints) {
  const ir::Type& type = op.operand(0)->type;
  const Ints size = ints.Of(op.operand(1));
  if (!type.is_static() || !size || size->front() != type.dims[op.Int("dimension")])
    return SizeNotKnown(op);
  return std::vector<ir::Value*>{op.operand(0)};
}

}  // namespace shardway::spmd
