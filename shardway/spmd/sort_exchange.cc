#include "shardway/spmd/sort_exchange.h"

#include <algorithm>
#include <limits>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/pack.h"
#include "shardway/spmd/part_values.h"
#include "shardway/spmd/sort_order.h"
#include "shardway/spmd/sorting_network.h"

namespace shardway::spmd {
namespace {

using ir::OpKind;

// Elements are told apart by their places where a stable sort shows which of two equals was first.
bool NeedsPlaces(const ir::Op& op) { return op.Bool("is_stable") && !TiesAreAlike(op); }

ElementType PlaceOf(int64_t size) {
  return size > std::numeric_limits<int32_t>::max() ? ElementType::kI64 : ElementType::kI32;
}

class Exchange {
 public:
  explicit Exchange(LocalOp& local)
      : local_(local),
        e_(local.e),
        b_(local.e.b()),
        dim_(static_cast<int>(SortedDim(local.op))),
        axes_(local.operand_shardings[0].dims[dim_]),
        size_(local.op.operand(0)->type.dims[dim_]),
        tile_(local.operands[0]->type.dims[dim_]),
        dims_(local.operands[0]->type.dims),
        by_place_(NeedsPlaces(local.op)) {}

  LocalResults Run() {
    const auto n = static_cast<int>(e_.mesh().SizeOf(axes_));
    std::vector<int64_t> real(n);  // elements of each part that are no padding
    for (int p = 0; p < n; ++p) real[p] = std::clamp<int64_t>(size_ - p * tile_, 0, tile_);
    const bool padded = tile_ * n != size_;
    std::vector<ir::Value*> mine = local_.operands;
    if (by_place_) mine.push_back(Places());
    SHARDWAY_ASSIGN_OR_RETURN(
        mine, SortInOrder(local_, mine, by_place_, padded ? From(Numbers(real)) : nullptr));
    for (const NetworkRound& round : SortingNetwork(n)) {
      SHARDWAY_RETURN_IF_ERROR(Compare(round, padded, real, mine));
    }
    mine.resize(local_.operands.size());
    return mine;
  }

 private:
  static PartNumbers Numbers(const std::vector<int64_t>& values) {
    return {values.begin(), values.end()};
  }
  ir::Value* Wide(ir::Value* scalar) { return b_.BroadcastInDim(scalar, dims_, {}); }

  ir::Value* Places() {
    const ir::Type type = ir::Type::Tensor(PlaceOf(size_), dims_);
    const ir::Type scalar = ir::Type::Scalar(type.element);
    ir::Value* begin = b_.Binary(OpKind::kMultiply, b_.Convert(e_.Coordinate(axes_), type.element),
                                 b_.SplatInt(scalar, tile_));
    return b_.Binary(OpKind::kAdd, b_.Iota(type, dim_), Wide(begin));
  }

  // i1: places in the tile from a part's number on.
  ir::Value* From(const PartNumbers& first) {
    const ir::Type i32 = ir::Type::Tensor(ElementType::kI32, dims_);
    return b_.Compare("GE", b_.Iota(i32, dim_), Wide(NumberOfPart(e_, axes_, first)));
  }
  // i1: whether a part's number is 1.
  ir::Value* Is(const PartNumbers& flags) {
    const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
    return Wide(b_.Compare("EQ", NumberOfPart(e_, axes_, flags), b_.SplatInt(i32, 1)));
  }

  ir::Value* Reversed(ir::Value* x) {
    ir::AttrDict attributes;
    ir::Set(attributes, "dimensions", std::vector<int64_t>{dim_});
    return b_.Create(OpKind::kReverse, {&x, 1}, {&x->type, 1}, std::move(attributes))->result();
  }

  // What the partner has, last first.
  std::vector<ir::Value*> Theirs(const std::vector<ir::Value*>& mine,
                                 const std::vector<int64_t>& partner) {
    const auto pairs = PairsOfParts(partner);
    std::vector<ir::Value*> theirs;
    if (ir::Value* packed = mine.size() > 1 ? Pack(b_, mine) : nullptr) {
      std::vector<ElementType> elements;
      elements.reserve(mine.size());
      for (const ir::Value* v : mine) elements.push_back(v->type.element);
      theirs = Unpack(b_, e_.Permute(packed, axes_, pairs), 0, elements);
    } else {
      for (ir::Value* v : mine) theirs.push_back(e_.Permute(v, axes_, pairs));
    }
    for (ir::Value*& v : theirs) v = Reversed(v);
    return theirs;
  }

  // One round. Of two sorted shards the lesser of each element of the one and its counterpart in
  // the other, last first, are the lower half of both, in some order.
  absl::Status Compare(const NetworkRound& round, bool padded, std::vector<int64_t>& real,
                       std::vector<ir::Value*>& mine) {
    const size_t n = real.size();
    std::vector<int64_t> partner(n, -1);
    PartNumbers is_low(n), takes_part(n, 0), theirs_from(n), next(n);
    for (size_t p = 0; p < n; ++p) next[p] = real[p];
    for (auto [low, high] : round) {
      partner[low] = high;
      partner[high] = low;
      is_low[low] = 1;
      is_low[high] = 0;
      takes_part[low] = takes_part[high] = 1;
      theirs_from[low] = tile_ - real[high];
      theirs_from[high] = tile_ - real[low];
      next[low] = std::min(tile_, real[low] + real[high]);
      next[high] = real[low] + real[high] - *next[low];
    }
    const std::vector<ir::Value*> theirs = Theirs(mine, partner);
    ir::Value* low = Is(is_low);
    std::vector<ir::Value*> lower, upper;
    for (size_t i = 0; i < mine.size(); ++i) {
      lower.push_back(b_.Select(low, mine[i], theirs[i]));
      upper.push_back(b_.Select(low, theirs[i], mine[i]));
    }
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * swaps, ComesBefore(local_, upper, lower, by_place_));
    ir::Value* my_padding = nullptr;
    ir::Value* their_padding = nullptr;
    if (padded) {
      my_padding = From(Numbers(real));
      // Last first, padding comes first.
      their_padding = b_.Unary(OpKind::kNot, From(theirs_from));
      ir::Value* lower_padding = b_.Select(low, my_padding, their_padding);
      ir::Value* upper_padding = b_.Select(low, their_padding, my_padding);
      swaps = b_.Binary(OpKind::kAnd, b_.Unary(OpKind::kNot, upper_padding),
                        b_.Binary(OpKind::kOr, lower_padding, swaps));
    }
    if (SameForAll(takes_part) != 1) swaps = b_.Binary(OpKind::kAnd, swaps, Is(takes_part));
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = b_.Select(swaps, theirs[i], mine[i]);
    ir::Value* padding = padded ? b_.Select(swaps, their_padding, my_padding) : nullptr;
    SHARDWAY_ASSIGN_OR_RETURN(mine, SortInOrder(local_, mine, by_place_, padding));
    for (size_t p = 0; p < n; ++p) real[p] = *next[p];
    return absl::OkStatus();
  }

  LocalOp& local_;
  Emitter& e_;
  ir::Builder& b_;
  const int dim_;
  const AxisList axes_;
  const int64_t size_, tile_;
  const ir::Dims dims_;
  const bool by_place_;
};

}  // namespace

double SortExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes,
                    const Mesh& mesh) {
  const Sharding sharding = FromFactors(rule, rule.operands[0], axes, mesh);
  const AxisList& split = sharding.dims[SortedDim(op)];
  double bytes = 0;
  int64_t elements = 0;
  for (const ir::Value* v : op.operands) {
    const ir::Type shard = sharding::LocalType(v->type, sharding, mesh);
    bytes += static_cast<double>(shard.num_bytes());
    elements = shard.num_elements();
  }
  if (NeedsPlaces(op)) {
    const ElementType place = PlaceOf(op.operand(0)->type.dims[SortedDim(op)]);
    bytes += static_cast<double>(elements) * (place == ElementType::kI64 ? 8 : 4);
  }
  const auto rounds =
      static_cast<double>(SortingNetwork(static_cast<int>(mesh.SizeOf(split))).size());
  return rounds * (CostOver({kCollectivePrice, bytes}, mesh, split) +
                   kBytesPerElement * static_cast<double>(elements));
}

LocalResults SortByExchange(LocalOp& local) { return Exchange(local).Run(); }

}  // namespace shardway::spmd
