// Two ways to put a window together. As a *run*: the stretches of all rounds side by side, in one
// order that serves every part, and out of that a slice. Otherwise stretch by stretch, each moved
// to its place and selected there.
#include <algorithm>
#include <set>

#include "shardway/spmd/halo.h"
#include "shardway/spmd/part_values.h"

namespace shardway::spmd {
namespace {

// What came out of one round: for each part where in it the stretch begins, and where it belongs.
struct Arrived {
  ir::Value* value;  // `length` along the dimension
  int64_t length;
  bool local;
  struct Stretch {
    int64_t offset, length, at;
  };
  std::vector<std::optional<Stretch>> parts;
};

bool IsZero(const ir::Value* scalar) {
  if (scalar->def == nullptr || scalar->def->kind != ir::OpKind::kConstant) return false;
  const auto* constant = scalar->def->Find("value")->get_if<ir::Constant>();
  return constant != nullptr &&
         std::all_of(constant->bytes.begin(), constant->bytes.end(), [](char c) { return c == 0; });
}

class HaloEmitter {
 public:
  HaloEmitter(Emitter& e, const HaloPlan& plan, absl::Span<ir::Value* const> shards, int dim,
              const AxisList& axes, ir::Value* fill, int64_t stride)
      : e_(e),
        b_(e.b()),
        plan_(plan),
        shards_(shards),
        dim_(dim),
        axes_(axes),
        fill_(fill),
        stride_(stride) {}

  ir::Value* Emit() {
    for (const HaloRound& round : plan_.rounds) {
      arrived_.push_back(round.local ? Keep(round) : Exchange(round));
    }
    FindCover();
    if (arrived_.empty()) return Thin(Background());
    if (fill_ == nullptr || whole_cover_) {
      if (Order() && FindStarts()) return ThinRun();
    }
    return Thin(Pieces());
  }

 private:
  ir::Type Sized(int64_t size) const {
    ir::Type type = shards_[0]->type;
    type.dims[dim_] = size;
    return type;
  }
  ir::Value* Zero() { return b_.SplatInt(ir::Type::Scalar(shards_[0]->type.element), 0); }

  ir::Value* Background() {
    const ir::Type type = Sized(plan_.width);
    return fill_ != nullptr ? b_.BroadcastInDim(fill_, type.dims, {}) : b_.SplatInt(type, 0);
  }

  ir::Value* Slice(ir::Value* x, int64_t start, int64_t length, int64_t stride = 1) {
    if (start == 0 && length == x->type.dims[dim_] && stride == 1) return x;
    std::vector<int64_t> starts(x->type.rank()), strides(x->type.rank(), 1);
    std::vector<int64_t> limits(x->type.dims.begin(), x->type.dims.end());
    starts[dim_] = start;
    limits[dim_] = start + length;
    strides[dim_] = stride;
    return b_.Slice(x, starts, limits, strides);
  }
  ir::Value* Thin(ir::Value* window) { return Slice(window, 0, plan_.width, stride_); }
  ir::Value* SliceAt(ir::Value* x, const PartNumbers& start, int64_t length) {
    if (const auto same = SameForAll(start)) return Slice(x, *same, length);
    std::vector<ir::Value*> starts(x->type.rank(),
                                   b_.SplatInt(ir::Type::Scalar(ElementType::kI32), 0));
    starts[dim_] = NumberOfPart(e_, axes_, start);
    const ir::Type type = Sized(length);
    return b_.DynamicSlice(x, starts, type.dims);
  }
  ir::Value* Pad(ir::Value* x, int64_t before, int64_t after) {
    if (before == 0 && after == 0) return x;
    std::vector<int64_t> low(x->type.rank()), high(x->type.rank());
    low[dim_] = before;
    high[dim_] = after;
    return b_.Pad(x, fill_ != nullptr ? fill_ : Zero(), low, high);
  }

  // Of its own tile every part keeps the stretch that any part wants.
  Arrived Keep(const HaloRound& round) {
    int64_t low = round.moves[0].start;
    int64_t high = 0;
    for (const HaloMove& move : round.moves) {
      low = std::min(low, move.start);
      high = std::max(high, move.start + move.length);
    }
    Arrived arrived{Slice(shards_[round.moves[0].source], low, high - low), high - low, true, {}};
    arrived.parts.resize(plan_.parts);
    for (const HaloMove& move : round.moves) {
      arrived.parts[move.to] = {move.start - low, move.length, move.at};
    }
    return arrived;
  }

  Arrived Exchange(const HaloRound& round) {
    Arrived arrived{nullptr, round.length, false, {}};
    arrived.parts.resize(plan_.parts);
    std::set<int> sources;
    int64_t low = round.moves[0].start;
    int64_t high = 0;
    for (const HaloMove& move : round.moves) {
      sources.insert(move.source);
      low = std::min(low, move.start);
      high = std::max(high, move.start + move.length);
    }
    const bool same = high - low <= round.length && sources.size() == 1;
    PartNumbers starts(plan_.parts), chosen(plan_.parts);
    for (const HaloMove& move : round.moves) {
      const int64_t tile = std::max(shards_[move.source]->type.dims[dim_], round.length);
      const int64_t start = same ? low : std::min(move.start, tile - round.length);
      starts[move.from] = start;
      chosen[move.from] = move.source;
      arrived.parts[move.to] = {move.start - start, move.length, move.at};
    }
    ir::Value* stretch = nullptr;
    for (int source : sources) {
      ir::Value* shard = shards_[source];
      shard = Pad(shard, 0, std::max<int64_t>(0, round.length - shard->type.dims[dim_]));
      PartNumbers mine = starts;
      for (int p = 0; p < plan_.parts; ++p) {
        if (chosen[p] != source) mine[p].reset();
      }
      ir::Value* cut = SliceAt(shard, mine, round.length);
      stretch = stretch == nullptr ? cut : b_.Select(Chosen(chosen, source, cut), cut, stretch);
    }
    arrived.value = e_.Permute(stretch, axes_, PairsOf(round));
    return arrived;
  }

  ir::Value* Chosen(const PartNumbers& chosen, int source, const ir::Value* like) {
    const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
    ir::Value* is = b_.Compare("EQ", NumberOfPart(e_, axes_, chosen), b_.SplatInt(i32, source));
    return b_.BroadcastInDim(is, like->type.dims, {});
  }

  Emitter::Pairs PairsOf(const HaloRound& round) const {
    std::vector<int64_t> to(plan_.parts, -1);
    for (const HaloMove& move : round.moves) to[move.from] = move.to;
    return PairsOfParts(to);
  }

  // Which stretch of its window each part has pieces for; whether those leave no hole in it.
  void FindCover() {
    cover_.assign(plan_.parts, {plan_.width, 0});
    std::vector<int64_t> sum(plan_.parts);
    for (const Arrived& arrived : arrived_) {
      for (int p = 0; p < plan_.parts; ++p) {
        if (!arrived.parts[p]) continue;
        const auto& stretch = *arrived.parts[p];
        cover_[p].first = std::min(cover_[p].first, stretch.at);
        cover_[p].second = std::max(cover_[p].second, stretch.at + stretch.length);
        sum[p] += stretch.length;
      }
    }
    for (int p = 0; p < plan_.parts; ++p) {
      whole_cover_ &= sum[p] == std::max<int64_t>(0, cover_[p].second - cover_[p].first);
    }
  }

  // One order of the rounds in which the stretches of every part are in their order in the window.
  bool Order() {
    const size_t n = arrived_.size();
    std::vector<std::set<size_t>> after(n);
    std::vector<size_t> before(n);
    for (int p = 0; p < plan_.parts; ++p) {
      std::vector<std::pair<int64_t, size_t>> mine;
      for (size_t r = 0; r < n; ++r) {
        if (arrived_[r].parts[p]) mine.emplace_back(arrived_[r].parts[p]->at, r);
      }
      std::sort(mine.begin(), mine.end());
      for (size_t i = 1; i < mine.size(); ++i) {
        if (after[mine[i - 1].second].insert(mine[i].second).second) ++before[mine[i].second];
      }
    }
    std::set<size_t> ready;
    for (size_t r = 0; r < n; ++r) {
      if (before[r] == 0) ready.insert(r);
    }
    while (!ready.empty()) {
      const size_t r = *ready.begin();
      ready.erase(ready.begin());
      for (size_t next : after[r]) {
        if (--before[next] == 0) ready.insert(next);
      }
      order_.push_back(r);
    }
    return order_.size() == n;
  }

  // Where in the run each part's window begins, if all its stretches agree about it.
  bool FindStarts() {
    starts_.resize(plan_.parts);
    int64_t begin = 0;
    for (size_t r : order_) {
      for (int p = 0; p < plan_.parts; ++p) {
        if (!arrived_[r].parts[p]) continue;
        const int64_t start = begin + arrived_[r].parts[p]->offset - arrived_[r].parts[p]->at;
        if (starts_[p] && *starts_[p] != start) return false;
        starts_[p] = start;
      }
      begin += arrived_[r].length;
    }
    return true;
  }

  // With a stride, and all windows at the same place inside the run: each of its stretches is
  // thinned out before they are put together, so that the whole window is never there.
  ir::Value* ThinRun() {
    int64_t total = 0;
    for (const Arrived& arrived : arrived_) total += arrived.length;
    const auto start = SameForAll(starts_);
    if (stride_ == 1 || fill_ != nullptr || !start || *start < 0 || *start + plan_.width > total)
      return Thin(Run());
    std::vector<ir::Value*> run;
    int64_t begin = -*start;  // of a stretch, in the window
    for (size_t r : order_) {
      const int64_t end = begin + arrived_[r].length;
      const int64_t from = sharding::CeilDiv(std::max<int64_t>(begin, 0), stride_) * stride_;
      const int64_t limit = std::min(end, plan_.width);
      if (from < limit)
        run.push_back(Slice(arrived_[r].value, from - begin, limit - from, stride_));
      begin = end;
    }
    return run.size() == 1 ? run[0] : b_.Concatenate(run, dim_);
  }

  ir::Value* Run() {
    int64_t total = 0;
    for (const Arrived& arrived : arrived_) total += arrived.length;
    const auto same = SameForAll(starts_);
    int64_t first = total, last = 0;
    for (const auto& start : starts_) {
      if (!start) continue;
      first = std::min(first, *start);
      last = std::max(last, *start + plan_.width);
    }
    // Where all windows are at the same place, only what is in them.
    const int64_t low = same ? std::clamp<int64_t>(*same, 0, total) : 0;
    const int64_t high = same ? std::clamp<int64_t>(last, 0, total) : total;
    std::vector<ir::Value*> run;
    int64_t begin = 0;
    for (size_t r : order_) {
      const int64_t end = begin + arrived_[r].length;
      const int64_t from = std::max(begin, low);
      const int64_t limit = std::min(end, high);
      if (from < limit) run.push_back(Slice(arrived_[r].value, from - begin, limit - from));
      begin = end;
    }
    ir::Value* x = run.size() == 1 ? run[0] : b_.Concatenate(run, dim_);
    const int64_t before = std::max<int64_t>(0, -first);
    x = Pad(x, before, std::max<int64_t>(0, last - total));
    if (!same) {
      for (auto& start : starts_) {
        if (start) *start += before;
      }
      x = SliceAt(x, starts_, plan_.width);
    }
    if (fill_ == nullptr || (same && FilledAlready(*same))) return x;
    return !same && PaddedAlready(before, total) ? x : Fill(x);
  }

  // Whether all that no piece covers lies beyond the run, where Pad has put the fill; it is `total`
  // long, and `before` were put in front.
  bool PaddedAlready(int64_t before, int64_t total) const {
    for (int p = 0; p < plan_.parts; ++p) {
      const auto [from, limit] = cover_[p];
      if (from >= limit) return false;
      const int64_t start = *starts_[p] - before;
      if ((from > 0 && start + from > 0) || (limit < plan_.width && start + limit < total))
        return false;
    }
    return true;
  }

  // Whether the uncovered ends are zeros that a permute gave or a pad made, and zero is the fill.
  bool FilledAlready(int64_t start) const {
    const bool zero = IsZero(fill_);
    for (int p = 0; p < plan_.parts; ++p) {
      const auto [from, limit] = cover_[p];
      if (from >= limit) return false;
      if (from == 0 && limit == plan_.width) continue;
      int64_t begin = 0;
      for (size_t r : order_) {
        const int64_t end = begin + arrived_[r].length;
        const bool before = from > 0 && begin < start + from && end > start;
        const bool after =
            limit < plan_.width && begin < start + plan_.width && end > start + limit;
        const bool zeros = zero && !arrived_[r].local && !arrived_[r].parts[p];
        if ((before || after) && !zeros) return false;
        begin = end;
      }
    }
    return true;
  }

  // Elements of a window from low to high (by part), as a mask of its shape; null for all.
  ir::Value* Mask(const PartNumbers& low, const PartNumbers& high) {
    const ir::Type type = ir::Type::Tensor(ElementType::kI32, Sized(plan_.width).dims);
    ir::Value* mask = nullptr;
    auto both = [&](ir::Value* other) {
      mask = mask == nullptr ? other : b_.Binary(ir::OpKind::kAnd, mask, other);
    };
    ir::Value* at = nullptr;
    auto position = [&] { return at != nullptr ? at : at = b_.Iota(type, dim_); };
    auto wide = [&](const PartNumbers& n) {
      return b_.BroadcastInDim(NumberOfPart(e_, axes_, n), type.dims, {});
    };
    if (SameForAll(low) != 0) both(b_.Compare("GE", position(), wide(low)));
    if (SameForAll(high) != plan_.width) both(b_.Compare("LT", position(), wide(high)));
    return mask;
  }

  // The bounds of a mask; a part without elements has an end where that makes the others alike.
  ir::Value* MaskOf(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    bool to_end = true;
    for (const auto& [low, high] : ranges) to_end &= low >= high || high == plan_.width;
    PartNumbers lows, highs;
    for (const auto& [low, high] : ranges) {
      const bool none = low >= high;
      const int64_t empty = to_end ? plan_.width : 0;
      lows.push_back(none ? empty : low);
      highs.push_back(none ? empty : high);
    }
    return Mask(lows, highs);
  }

  ir::Value* Fill(ir::Value* x) {
    ir::Value* mask = MaskOf(cover_);
    return mask == nullptr ? x : b_.Select(mask, x, Background());
  }

  ir::Value* Pieces() {
    ir::Value* window = fill_ != nullptr ? Background() : nullptr;
    for (const Arrived& arrived : arrived_) {
      int64_t before = 0, after = 0;
      std::vector<std::pair<int64_t, int64_t>> ranges(plan_.parts);
      for (int p = 0; p < plan_.parts; ++p) {
        if (!arrived.parts[p]) continue;
        const auto& [offset, length, at] = *arrived.parts[p];
        before = std::max(before, at - offset);
        after = std::max(after, plan_.width + offset - at - arrived.length);
        ranges[p] = {at, at + length};
      }
      PartNumbers starts(plan_.parts);
      for (int p = 0; p < plan_.parts; ++p) {
        if (arrived.parts[p]) starts[p] = before + arrived.parts[p]->offset - arrived.parts[p]->at;
      }
      ir::Value* placed = SliceAt(Pad(arrived.value, before, after), starts, plan_.width);
      if (window == nullptr) {
        window = placed;
        continue;
      }
      ir::Value* mask = MaskOf(ranges);
      window = mask == nullptr ? placed : b_.Select(mask, placed, window);
    }
    return window;
  }

  Emitter& e_;
  ir::Builder& b_;
  const HaloPlan& plan_;
  const absl::Span<ir::Value* const> shards_;
  const int dim_;
  const AxisList& axes_;
  ir::Value* const fill_;
  const int64_t stride_;
  std::vector<Arrived> arrived_;                    // by round
  std::vector<std::pair<int64_t, int64_t>> cover_;  // by part
  bool whole_cover_ = true;
  std::vector<size_t> order_;  // of rounds, in a run
  PartNumbers starts_;         // in the run
};

}  // namespace

ir::Value* EmitHalo(Emitter& e, const HaloPlan& plan, absl::Span<ir::Value* const> shards, int dim,
                    const AxisList& axes, ir::Value* fill, int64_t stride) {
  return HaloEmitter(e, plan, shards, dim, axes, fill, stride).Emit();
}

}  // namespace shardway::spmd
