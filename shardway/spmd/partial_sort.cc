#include "shardway/spmd/partial_sort.h"

#include <algorithm>

namespace shardway::spmd {
namespace {

int64_t SortedDim(const ir::Op& op) {
  const int64_t dim = op.Int("dimension", -1);
  return dim < 0 ? dim + op.operand(0)->type.rank() : dim;
}

// By Value::id: how far along the sorted dimension any use reaches.
class Reach {
 public:
  explicit Reach(const ir::Module& module) : reach_(module.num_values(), 0) {
    Walk(*module.main()->body);
  }
  int64_t Of(const ir::Op& sort) const {
    int64_t most = 0;
    for (const ir::Value* v : sort.results) most = std::max(most, reach_[v->id]);
    return most;
  }

 private:
  void Walk(const ir::Region& region) {
    for (const ir::Op* op : region.ops) {
      for (const ir::Value* v : op->operands) {
        if (v->def == nullptr || v->def->kind != ir::OpKind::kSort) continue;
        const int64_t dim = SortedDim(*v->def);
        const int64_t end =
            op->kind == ir::OpKind::kSlice ? op->IntList("limit_indices")[dim] : v->type.dims[dim];
        reach_[v->id] = std::max(reach_[v->id], end);
      }
      for (const ir::Region* inner : op->regions) Walk(*inner);
    }
  }
  std::vector<int64_t> reach_;
};

void Shorten(const Reach& reach, const ir::Region& region) {
  for (ir::Op* op : region.ops) {
    for (const ir::Region* inner : op->regions) Shorten(reach, *inner);
    if (op->kind != ir::OpKind::kSort || op->operands.empty()) continue;
    const int64_t dim = SortedDim(*op);
    const int64_t k = reach.Of(*op);
    if (k <= 0 || k >= op->operand(0)->type.dims[dim]) continue;
    for (ir::Value* v : op->results) v->type.dims[dim] = k;
    ir::Set(op->attributes, std::string(kFirstOnly), true);
  }
}

}  // namespace

void ShortenSorts(Program& program) {
  const Reach reach(*program.module);
  Shorten(reach, *program.module->main()->body);
}

}  // namespace shardway::spmd
