#include "shardway/spmd/pack.h"

namespace shardway::spmd {

ElementType UnsignedOf(int bits) {
  switch (bits) {
    case 8:
      return ElementType::kUI8;
    case 16:
      return ElementType::kUI16;
    case 32:
      return ElementType::kUI32;
    case 64:
      return ElementType::kUI64;
    default:
      return ElementType::kInvalid;
  }
}

ir::Value* Bitcast(ir::Builder& b, ir::Value* x, ElementType element) {
  if (x->type.element == element) return x;
  const ir::Type type = ir::Type::Tensor(element, x->type.dims);
  return b.Create(ir::OpKind::kBitcastConvert, {&x, 1}, {&type, 1})->result();
}

ir::Value* Pack(ir::Builder& b, absl::Span<ir::Value* const> values) {
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), values[0]->type.dims.begin(), values[0]->type.dims.end());
  if (values.size() == 1) return b.Reshape(values[0], dims);
  const ElementType common = UnsignedOf(ElementBits(values[0]->type.element));
  std::vector<ir::Value*> parts;
  for (ir::Value* v : values) {
    if (common == ElementType::kInvalid || IsComplex(v->type.element) ||
        ElementBits(v->type.element) != ElementBits(common) ||
        v->type.dims != values[0]->type.dims) {
      return nullptr;
    }
  }
  parts.reserve(values.size());
  for (ir::Value* v : values) parts.push_back(b.Reshape(Bitcast(b, v, common), dims));
  return b.Concatenate(parts, 0);
}

std::vector<ir::Value*> Unpack(ir::Builder& b, ir::Value* packed, int dim,
                               absl::Span<const ElementType> elements) {
  const ir::Dims& all = packed->type.dims;
  std::vector<int64_t> dims(all.begin(), all.end());
  dims.erase(dims.begin() + dim);
  std::vector<int64_t> starts(all.size()), limits(all.begin(), all.end());
  std::vector<ir::Value*> values;
  for (size_t i = 0; i < elements.size(); ++i) {
    starts[dim] = static_cast<int64_t>(i);
    limits[dim] = static_cast<int64_t>(i) + 1;
    values.push_back(Bitcast(b, b.Reshape(b.Slice(packed, starts, limits), dims), elements[i]));
  }
  return values;
}

}  // namespace shardway::spmd
