// reshape: operand and result are cut into their common factors, from the major side.
//
//   [6] → [2,3]        {a·b} → {a},{b}
//   [4,6] → [8,3]      {a},{b·c} → {a·b},{c}          a=4, b=2, c=3
//   [6,4] → [4,6]      {a·_},{_} → {a·_},{_}          a=2; what is left shares no border:
//   replicated
#include <numeric>

#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

constexpr auto kReplicated = Factor::Kind::kReplicated;

// One side of the reshape while it is cut: the dimension we are in and what is left of it.
struct Side {
  const ir::Dims& dims;
  TensorFactors factors;
  size_t at = 0;
  int64_t left = 1;

  explicit Side(const ir::Dims& d) : dims(d), factors(d.size()) {
    if (!dims.empty()) left = dims[0];
    SkipOnes();
  }
  bool done() const { return at >= dims.size(); }
  void SkipOnes() {
    while (!done() && left == 1) {
      if (++at < dims.size()) left = dims[at];
    }
  }
  void Take(int factor, int64_t size) {
    factors[at].push_back(factor);
    left /= size;
    SkipOnes();
  }
};

// Nothing in common from here to the next border that both sides share.
void TakeUnrelated(OpRule& rule, Side& a, Side& b) {
  int64_t product_a = 1;
  int64_t product_b = 1;
  auto take = [&](Side& side, int64_t& product) {
    const int64_t size = side.left;
    product *= size;
    side.Take(rule.AddFactor(size, kReplicated), size);
  };
  take(a, product_a);
  take(b, product_b);
  while (product_a != product_b) {
    if (product_a < product_b && !a.done()) {
      take(a, product_a);
    } else if (!b.done()) {
      take(b, product_b);
    } else {
      return;
    }
  }
}

}  // namespace

OpRule ReshapeRule(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const ir::Type& to = op.result()->type;
  if (from.num_elements() == 0) return ReplicatedRule(op);
  OpRule rule;
  Side a(from.dims);
  Side b(to.dims);
  while (!a.done() && !b.done()) {
    const int64_t common = std::gcd(a.left, b.left);
    if (common == 1) {
      TakeUnrelated(rule, a, b);
      continue;
    }
    const bool border = common == a.left || common == b.left;
    const int factor = rule.AddFactor(common);
    a.Take(factor, common);
    b.Take(factor, common);
    if (!border) TakeUnrelated(rule, a, b);
  }
  rule.operands.push_back(std::move(a.factors));
  rule.results.push_back(std::move(b.factors));
  return rule;
}

}  // namespace shardway::spmd
