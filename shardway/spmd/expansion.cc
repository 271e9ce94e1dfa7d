#include "shardway/spmd/expansion.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {
namespace {

std::string Named(const ir::Op& op, std::string_view what) {
  return absl::StrCat(std::string(ir::OpKindName(op.kind)), " at ", op.location->ToString(), ": ",
                      std::string(what));
}

}  // namespace

ir::Value* SumOver(ir::Builder& b, ir::Value* x, std::vector<int64_t> dims) {
  if (dims.empty()) return x;
  ir::Dims kept;
  for (int d = 0; d < x->type.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(x->type.dims[d]);
  }
  const ElementType element = x->type.element;
  ir::Value* operands[] = {x, b.SplatInt(ir::Type::Scalar(element), 0)};
  const ir::Type type = x->type.WithDims(kept);
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::move(dims));
  ir::Op* op = b.Create(ir::OpKind::kReduce, operands, {&type, 1}, std::move(attributes));
  const auto sum =
      element == ElementType::kI1 ? collective::Reduction::kOr : collective::Reduction::kSum;
  BuildReducer(b.module(), b.module()->AddRegion(op), sum, element);
  return op->result();
}

absl::Status Malformed(const ir::Op& op, std::string_view what) {
  return absl::InvalidArgumentError(Named(op, what));
}

absl::Status NotKnown(const ir::Op& op, std::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(Named(op, what), " known only when the program runs"));
}

}  // namespace shardway::spmd
