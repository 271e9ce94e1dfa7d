#include "shardway/spmd/parallel_indices.h"

#include <algorithm>

namespace shardway::spmd {
namespace {

constexpr int kDeepest = 12;  // operators looked through
constexpr int64_t kLargestConstant = 1 << 20;

bool IsZero(const ir::Value* v) {
  for (int depth = 0; v->def != nullptr && depth < kDeepest; ++depth) {
    if (v->def->kind == ir::OpKind::kConstant) {
      const ir::Attribute* attribute = v->def->Find("value");
      const auto* value = attribute != nullptr ? attribute->get_if<ir::Constant>() : nullptr;
      if (value == nullptr || !IsInteger(value->type.element)) return false;
      if (!value->splat && value->type.num_elements() != 1) return false;
      ir::Constant one = *value;
      one.type = ir::Type::Scalar(value->type.element);
      return one.Ints()[0] == 0;
    }
    if (v->def->kind != ir::OpKind::kBroadcastInDim && v->def->kind != ir::OpKind::kConvert &&
        v->def->kind != ir::OpKind::kReshape) {
      return false;
    }
    v = v->def->operand(0);
  }
  return false;
}

// The dimension along which a constant counts.
std::optional<int> OfConstant(const ir::Op& op) {
  const ir::Attribute* attribute = op.Find("value");
  const auto* value = attribute != nullptr ? attribute->get_if<ir::Constant>() : nullptr;
  if (value == nullptr || value->splat || value->type.num_elements() > kLargestConstant)
    return std::nullopt;
  const std::vector<int64_t> elements = value->Ints();
  int64_t stride = static_cast<int64_t>(elements.size());
  for (int d = 0; d < value->type.rank(); ++d) {
    const int64_t size = value->type.dims[d];
    if (size == 0) return std::nullopt;
    stride /= size;
    if (size == 1) continue;
    bool counts = true;
    for (size_t i = 0; counts && i < elements.size(); ++i)
      counts = elements[i] == static_cast<int64_t>(i) / stride % size;
    if (counts) return d;
  }
  return std::nullopt;
}

std::optional<int> Find(const ir::Value* v, int depth);

// Dimensions of size 1 come and go; nothing else changes.
std::optional<int> ThroughReshape(const ir::Op& op, int dim) {
  const ir::Dims& from = op.operand(0)->type.dims;
  const ir::Dims& to = op.result()->type.dims;
  std::vector<int> kept_from, kept_to;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1) kept_from.push_back(static_cast<int>(d));
  }
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] != 1) kept_to.push_back(static_cast<int>(d));
  }
  if (kept_from.size() != kept_to.size()) return std::nullopt;
  std::optional<int> found;
  for (size_t i = 0; i < kept_from.size(); ++i) {
    if (from[kept_from[i]] != to[kept_to[i]]) return std::nullopt;
    if (kept_from[i] == dim) found = kept_to[i];
  }
  return found;
}

// select(i < 0, i + n, i): what makes negative indices count from the end.
bool IsNegative(const ir::Value* predicate, int dim, int depth) {
  const ir::Op* op = predicate->def;
  return op != nullptr && op->kind == ir::OpKind::kCompare &&
         op->String("comparison_direction") == "LT" && IsZero(op->operand(1)) &&
         Find(op->operand(0), depth) == dim;
}

std::optional<int> Find(const ir::Value* v, int depth) {
  const ir::Op* op = v->def;
  if (op == nullptr || depth > kDeepest || !v->type.is_tensor() || !IsInteger(v->type.element))
    return std::nullopt;
  switch (op->kind) {
    case ir::OpKind::kIota: {
      const int dim = static_cast<int>(op->Int("iota_dimension"));
      const int bits = std::min(ElementBits(v->type.element) - 1, 62);
      if (v->type.dims[dim] > int64_t{1} << bits) return std::nullopt;  // it wraps
      return dim;
    }
    case ir::OpKind::kConstant:
      return OfConstant(*op);
    case ir::OpKind::kConvert: {
      const std::optional<int> dim = Find(op->operand(0), depth + 1);
      const int bits = std::min(ElementBits(v->type.element) - 1, 62);
      if (dim && v->type.dims[*dim] > int64_t{1} << bits) return std::nullopt;
      return dim;
    }
    case ir::OpKind::kSdyShardingConstraint:
      return Find(op->operand(0), depth + 1);
    case ir::OpKind::kBroadcastInDim: {
      const std::optional<int> dim = Find(op->operand(0), depth + 1);
      if (!dim) return std::nullopt;
      const int64_t to = op->IntList("broadcast_dimensions")[*dim];
      if (v->type.dims[to] != op->operand(0)->type.dims[*dim]) return std::nullopt;
      return static_cast<int>(to);
    }
    case ir::OpKind::kTranspose: {
      const std::optional<int> dim = Find(op->operand(0), depth + 1);
      if (!dim) return std::nullopt;
      const auto& order = op->IntList("permutation");
      return static_cast<int>(std::find(order.begin(), order.end(), *dim) - order.begin());
    }
    case ir::OpKind::kReshape: {
      const std::optional<int> dim = Find(op->operand(0), depth + 1);
      return dim ? ThroughReshape(*op, *dim) : std::nullopt;
    }
    case ir::OpKind::kSelect: {
      const std::optional<int> dim = Find(op->operand(2), depth + 1);
      return dim && IsNegative(op->operand(0), *dim, depth + 1) ? dim : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// The value that is component `c` of the indices, with an index vector of length 1.
const ir::Value* Component(const ir::Value* indices, int64_t index_vector_dim, int64_t c) {
  while (indices->def != nullptr && indices->def->kind == ir::OpKind::kSdyShardingConstraint) {
    indices = indices->def->operand(0);
  }
  const ir::Type& type = indices->type;
  if (index_vector_dim >= type.rank() || type.dims[index_vector_dim] == 1) return indices;
  const ir::Op* op = indices->def;
  if (op == nullptr || op->kind != ir::OpKind::kConcatenate ||
      op->Int("dimension") != index_vector_dim) {
    return nullptr;
  }
  for (const ir::Value* part : op->operands) {
    const int64_t width = part->type.dims[index_vector_dim];
    if (c < width) return width == 1 ? part : nullptr;
    c -= width;
  }
  return nullptr;
}

}  // namespace

std::optional<int> IotaDimension(const ir::Value* v) { return Find(v, 0); }

std::vector<std::pair<int64_t, int64_t>> ParallelDims(const GatherDims& dims, const ir::Type& whole,
                                                      const ir::Value* indices) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  auto taken = [&](int64_t index_dim) {
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const auto& p) { return p.second == index_dim; }) ||
           std::find(dims.batch_indices.begin(), dims.batch_indices.end(), index_dim) !=
               dims.batch_indices.end();
  };
  for (size_t c = 0; c < dims.index_map.size(); ++c) {
    const int64_t d = dims.index_map[c];
    if (std::find(dims.single_dims.begin(), dims.single_dims.end(), d) == dims.single_dims.end())
      continue;
    const ir::Value* part = Component(indices, dims.index_vector_dim, static_cast<int64_t>(c));
    const std::optional<int> along = part != nullptr ? IotaDimension(part) : std::nullopt;
    if (!along || *along == dims.index_vector_dim || taken(*along) ||
        indices->type.dims[*along] != whole.dims[d]) {
      continue;
    }
    pairs.emplace_back(d, *along);
  }
  return pairs;
}

}  // namespace shardway::spmd
