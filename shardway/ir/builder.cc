#include "shardway/ir/builder.h"

#include <cassert>
#include <string>
#include <utility>

#include "shardway/ir/scalar.h"

namespace shardway::ir {
namespace {

std::vector<int64_t> List(absl::Span<const int64_t> values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

}  // namespace

Op* Builder::Create(OpKind kind, absl::Span<Value* const> operands,
                    absl::Span<const Type> result_types, AttrDict attributes) {
  Op* op = module_->Append(region_, kind, operands, result_types, location_);
  op->attributes = std::move(attributes);
  return op;
}

Value* Builder::Unary(OpKind kind, Value* x) { return Create(kind, {x}, {x->type})->result(); }

Value* Builder::Binary(OpKind kind, Value* a, Value* b) {
  assert(a->type == b->type);
  return Create(kind, {a, b}, {a->type})->result();
}

Value* Builder::Real(Value* x) {
  return Create(OpKind::kReal, {x}, {Type::Tensor(RealOf(x->type.element), x->type.dims)})
      ->result();
}

Value* Builder::Imag(Value* x) {
  return Create(OpKind::kImag, {x}, {Type::Tensor(RealOf(x->type.element), x->type.dims)})
      ->result();
}

Value* Builder::Complex(Value* real, Value* imag) {
  const Type type = Type::Tensor(ComplexOf(real->type.element), real->type.dims);
  return Create(OpKind::kComplex, {real, imag}, {type})->result();
}

Value* Builder::Barrier(Value* x) { return Unary(OpKind::kOptimizationBarrier, x); }

Value* Builder::Splat(const Type& type, double value) {
  return Constant(ir::Constant::Copy(type, ElementFromDouble(type.element, value), /*splat=*/true));
}

Value* Builder::SplatInt(const Type& type, int64_t value) {
  return Constant(ir::Constant::Copy(type, ElementFromInt(type.element, value), /*splat=*/true));
}

Value* Builder::Constant(ir::Constant constant) {
  const Type type = constant.type;
  return Create(OpKind::kConstant, {}, {type}, {{"value", std::move(constant)}})->result();
}

Value* Builder::IntVector(ElementType element, absl::Span<const int64_t> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Constant(ir::Constant::FromInts(Type::Tensor(element, {size}), values));
}

Value* Builder::Iota(const Type& type, int64_t dimension) {
  return Create(OpKind::kIota, {}, {type}, {{"iota_dimension", dimension}})->result();
}

Value* Builder::Convert(Value* x, ElementType element) {
  if (x->type.element == element) return x;
  return Create(OpKind::kConvert, {x}, {Type::Tensor(element, x->type.dims)})->result();
}

Value* Builder::Compare(std::string_view direction, Value* a, Value* b) {
  assert(a->type == b->type);
  const ElementType element = a->type.element;
  std::string type = "UNSIGNED";
  if (IsFloat(element) || IsComplex(element)) type = "FLOAT";
  if (IsSignedInteger(element)) type = "SIGNED";
  return Create(
             OpKind::kCompare, {a, b}, {Type::Tensor(ElementType::kI1, a->type.dims)},
             {{"compare_type", EnumAttr{"comparison_type", std::move(type)}},
              {"comparison_direction", EnumAttr{"comparison_direction", std::string(direction)}}})
      ->result();
}

Value* Builder::Select(Value* predicate, Value* on_true, Value* on_false) {
  return Create(OpKind::kSelect, {predicate, on_true, on_false}, {on_true->type})->result();
}

Value* Builder::Clamp(Value* min, Value* x, Value* max) {
  return Create(OpKind::kClamp, {min, x, max}, {x->type})->result();
}

Value* Builder::Reshape(Value* x, absl::Span<const int64_t> dims) {
  const Type type = x->type.WithDims(dims);
  assert(type.num_elements() == x->type.num_elements());
  if (type == x->type) return x;
  return Create(OpKind::kReshape, {x}, {type})->result();
}

Value* Builder::Transpose(Value* x, absl::Span<const int64_t> permutation) {
  assert(static_cast<int>(permutation.size()) == x->type.rank());
  Dims dims;
  for (int64_t p : permutation) dims.push_back(x->type.dim(static_cast<int>(p)));
  return Create(OpKind::kTranspose, {x}, {x->type.WithDims(dims)},
                {{"permutation", List(permutation)}})
      ->result();
}

Value* Builder::BroadcastInDim(Value* x, absl::Span<const int64_t> dims,
                               absl::Span<const int64_t> broadcast_dimensions) {
  return Create(OpKind::kBroadcastInDim, {x}, {x->type.WithDims(dims)},
                {{"broadcast_dimensions", List(broadcast_dimensions)}})
      ->result();
}

Value* Builder::Slice(Value* x, absl::Span<const int64_t> starts, absl::Span<const int64_t> limits,
                      absl::Span<const int64_t> strides) {
  const std::vector<int64_t> steps =
      strides.empty() ? std::vector<int64_t>(starts.size(), 1) : List(strides);
  Dims dims;
  for (size_t i = 0; i < starts.size(); ++i) {
    dims.push_back((limits[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  return Create(
             OpKind::kSlice, {x}, {x->type.WithDims(dims)},
             {{"limit_indices", List(limits)}, {"start_indices", List(starts)}, {"strides", steps}})
      ->result();
}

Value* Builder::DynamicSlice(Value* x, absl::Span<Value* const> starts,
                             absl::Span<const int64_t> sizes) {
  std::vector<Value*> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Create(OpKind::kDynamicSlice, operands, {x->type.WithDims(sizes)},
                {{"slice_sizes", List(sizes)}})
      ->result();
}

Value* Builder::DynamicUpdateSlice(Value* x, Value* update, absl::Span<Value* const> starts) {
  std::vector<Value*> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Create(OpKind::kDynamicUpdateSlice, operands, {x->type})->result();
}

Value* Builder::Pad(Value* x, Value* padding_value, absl::Span<const int64_t> low,
                    absl::Span<const int64_t> high) {
  Dims dims;
  for (int i = 0; i < x->type.rank(); ++i) dims.push_back(x->type.dim(i) + low[i] + high[i]);
  return Create(OpKind::kPad, {x, padding_value}, {x->type.WithDims(dims)},
                {{"edge_padding_high", List(high)},
                 {"edge_padding_low", List(low)},
                 {"interior_padding", std::vector<int64_t>(low.size(), 0)}})
      ->result();
}

Value* Builder::Concatenate(absl::Span<Value* const> xs, int64_t dimension) {
  Dims dims = xs[0]->type.dims;
  dims[dimension] = 0;
  for (const Value* x : xs) dims[dimension] += x->type.dim(static_cast<int>(dimension));
  return Create(OpKind::kConcatenate, xs, {xs[0]->type.WithDims(dims)}, {{"dimension", dimension}})
      ->result();
}

Value* Builder::Tuple(absl::Span<Value* const> xs) {
  std::vector<Type> types;
  types.reserve(xs.size());
  for (const Value* x : xs) types.push_back(x->type);
  return Create(OpKind::kTuple, xs, {Type::Tuple(std::move(types))})->result();
}

Value* Builder::GetTupleElement(Value* x, int64_t index) {
  return Create(OpKind::kGetTupleElement, {x}, {(*x->type.tuple)[index]},
                {{"index", TypedInt{ElementType::kI32, index}}})
      ->result();
}

void Builder::Return(absl::Span<Value* const> values) { Create(OpKind::kReturn, values, {}); }

void Builder::FuncReturn(absl::Span<Value* const> values) {
  Create(OpKind::kFuncReturn, values, {});
}

}  // namespace shardway::ir
