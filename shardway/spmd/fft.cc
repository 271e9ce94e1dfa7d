// fft: batches pass through. A transform over several dimensions is one over each of them, so a
// split dimension takes one of two ways, whichever sends less:
//
//   moved       its axes to another dimension, transformed already or still to come, and on from
//               there: an all-to-all, and one more where the result is wanted split as before
//   four steps  of a vector of N = n m over n parts, part d having x[d m + r]: all parts' elements
//               r of a stretch come together and are transformed over d, which gives k mod n;
//               turned by exp(-2 pi i r k / N) they are brought together by k mod n, transformed
//               over r, and brought in order: three all-to-alls, where n divides m; of real
//               signals half as much, see real_fft.h
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "shardway/base/status_macros.h"
#include "shardway/ir/attribute.h"
#include "shardway/spmd/costs.h"
#include "shardway/spmd/real_fft.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// A transform of one dimension: of its own kind, its length that of the signal.
struct Transform {
  int dim = 0;
  std::string kind;
  int64_t length = 0;
  std::optional<Sharding> moved;  // what the value is resharded to before
  bool four_steps = false;

  // Elements of the signal that make one complex number.
  int64_t pairs() const { return kind == "RFFT" || kind == "IRFFT" ? 2 : 1; }
};

struct Plan {
  std::vector<Transform> transforms;  // in their order
  double cost = 0;                    // infinite where a split dimension can't be transformed
  Sharding after;
};

bool IsInverse(const std::string& kind) { return kind == "IFFT" || kind == "IRFFT"; }

// The value's type once it is transformed so.
ir::Type After(ir::Type type, const Transform& t) {
  if (t.kind == "RFFT") {
    type.element = ComplexOf(type.element);
    type.dims[t.dim] = t.length / 2 + 1;
  } else if (t.kind == "IRFFT") {
    type.element = RealOf(type.element);
    type.dims[t.dim] = t.length;
  }
  return type;
}

class Planner {
 public:
  Planner(const ir::Op& op, const Sharding& from, Sharding to, const Mesh& mesh)
      : op_(op), to_(std::move(to)), mesh_(mesh), type_(op.operand(0)->type) {
    plan_.after = from;
  }

  Plan Make() {
    // Dimensions that are whole first: then others can move there for good. The last dimension of
    // real signals comes first, that of real results last.
    const auto& lengths = op_.IntList("fft_length");
    const std::string kind(op_.String("fft_type"));
    const int rank = type_.rank();
    const int count = static_cast<int>(lengths.size());
    const bool real = kind == "RFFT" || kind == "IRFFT";
    std::vector<int> whole, split;
    for (int d = rank - count; d < rank - (real ? 1 : 0); ++d) {
      (plan_.after.dims[d].empty() ? whole : split).push_back(d);
    }
    whole.insert(whole.end(), split.begin(), split.end());
    if (kind == "RFFT") whole.insert(whole.begin(), rank - 1);
    if (kind == "IRFFT") whole.push_back(rank - 1);
    for (size_t i = 0; i < whole.size(); ++i) {
      const int d = whole[i];
      std::string mine = IsInverse(kind) ? "IFFT" : "FFT";
      if (real && d == rank - 1) mine = kind;
      pending_ = {whole.begin() + static_cast<std::ptrdiff_t>(i) + 1, whole.end()};
      Add({d, std::move(mine), lengths[d - (rank - count)], std::nullopt, false});
    }
    plan_.cost += ReshardCost(type_, plan_.after, to_, mesh_);
    return std::move(plan_);
  }

 private:
  void Add(Transform t) {
    if (!plan_.after.dims[t.dim].empty()) {
      double best = FourSteps(t);
      t.four_steps = best < std::numeric_limits<double>::infinity();
      double price = best;
      for (int j = 0; j < type_.rank(); ++j) {
        if (j == t.dim) continue;
        Sharding moved = plan_.after;
        moved.dims[j].insert(moved.dims[j].end(), moved.dims[t.dim].begin(),
                             moved.dims[t.dim].end());
        moved.dims[t.dim].clear();
        const double there = ReshardCost(type_, plan_.after, moved, mesh_);
        double total = there + ReshardCost(type_, moved, to_, mesh_);
        // It would have to move once more.
        if (std::find(pending_.begin(), pending_.end(), j) != pending_.end()) total += there;
        if (total >= best) continue;
        best = total;
        price = there;
        t.moved = std::move(moved);
        t.four_steps = false;
      }
      plan_.cost += price;
      if (t.moved) plan_.after = *t.moved;
    }
    type_ = After(std::move(type_), t);
    plan_.transforms.push_back(std::move(t));
  }

  double FourSteps(const Transform& t) const {
    const int64_t n = mesh_.SizeOf(plan_.after.dims[t.dim]);
    if (t.length % (t.pairs() * n * n) != 0) return std::numeric_limits<double>::infinity();
    const ir::Type local = sharding::LocalType(type_, plan_.after, mesh_);
    const auto held = static_cast<double>(local.num_bytes());
    const AxisList& axes = plan_.after.dims[t.dim];
    const Traffic exchange = {kCollectivePrice, GatherBytes(held, n)};
    const double steps = 3 * (CostOver(exchange, mesh_, axes) + kCopyPrice * held);
    if (t.pairs() == 1) return steps;
    const int64_t m = t.length / 2;
    const double row = held / static_cast<double>(m / n);  // a real tile is as many pairs
    return steps + CostOver(t.kind == "RFFT" ? RealFft::ToSpectrum(m, n, row)
                                             : RealFft::FromSpectrum(m, n, row),
                            mesh_, axes);
  }

  const ir::Op& op_;
  const Sharding to_;
  const Mesh& mesh_;
  ir::Type type_;
  std::vector<int> pending_;  // dimensions still to come
  Plan plan_;
};

ir::Value* InRowMajor(ir::Builder& b, ir::Value* x) {
  std::vector<int64_t> minor_to_major;
  for (int d = x->type.rank(); d-- > 0;) minor_to_major.push_back(d);
  const auto layouts =
      std::make_shared<const ir::AttrArray>(ir::AttrArray{std::move(minor_to_major)});
  ir::AttrDict attributes;
  ir::Set(attributes, "call_target_name", std::string("LayoutConstraint"));
  ir::Set(attributes, "operand_layouts", layouts);
  ir::Set(attributes, "result_layouts", layouts);
  return b.Create(ir::OpKind::kCustomCall, {&x, 1}, {&x->type, 1}, std::move(attributes))->result();
}

class FftEmitter {
 public:
  explicit FftEmitter(Emitter& e) : e_(e), b_(e.b()) {}

  ir::Value* Along(ir::Value* x, const Transform& t) {
    return AtTheEnd(x, t.dim, [&](ir::Value* v) { return Last(v, t.kind, t.length); });
  }

  // Split over `axes`.
  ir::Value* InFourSteps(ir::Value* x, const Transform& t, const AxisList& axes) {
    return AtTheEnd(x, t.dim, [&](ir::Value* v) {
      if (t.pairs() == 1) return FourSteps(v, t, axes);
      RealFft real(e_, t.length / 2, axes);
      Transform half{t.dim, IsInverse(t.kind) ? "IFFT" : "FFT", t.length / 2, std::nullopt, true};
      if (t.kind == "RFFT") return real.Spectrum(FourSteps(real.ToPairs(v), half, axes));
      return real.FromPairs(FourSteps(real.FromSpectrum(v), half, axes));
    });
  }

  // The operator as it is.
  LocalResults AsIs(LocalOp& local) {
    local.operands[0] = Laid(local.operands[0]);
    SHARDWAY_ASSIGN_OR_RETURN(std::vector<ir::Value*> results, EmitAsIs(local));
    results[0] = Laid(results[0]);
    return results;
  }

 private:
  // XLA lays out what its collectives take and return as suits them, and passes that on; its fft
  // takes nothing but row-major.
  ir::Value* Laid(ir::Value* x) { return e_.backend() == Backend::kNative ? InRowMajor(b_, x) : x; }

  ir::Value* Last(ir::Value* x, const std::string& kind, int64_t length) {
    ir::AttrDict attributes;
    ir::Set(attributes, "fft_type", ir::EnumAttr{.kind = "fft_type", .value = kind});
    ir::Set(attributes, "fft_length", std::vector<int64_t>{length});
    const int last = x->type.rank() - 1;
    const ir::Type type = After(x->type, {last, kind, length, std::nullopt, false});
    x = Laid(x);
    return Laid(b_.Create(ir::OpKind::kFft, {&x, 1}, {&type, 1}, std::move(attributes))->result());
  }

  // What `work` does along the last dimension, along `dim`.
  template <typename Work>
  ir::Value* AtTheEnd(ir::Value* x, int dim, const Work& work) {
    const int last = x->type.rank() - 1;
    if (dim == last) return work(x);
    std::vector<int64_t> swapped(last + 1);
    for (int d = 0; d <= last; ++d) swapped[d] = d;
    std::swap(swapped[dim], swapped[last]);
    return b_.Transpose(work(b_.Transpose(x, swapped)), swapped);
  }

  ir::Value* FourSteps(ir::Value* x, const Transform& t, const AxisList& axes) {
    const int64_t n = e_.mesh().SizeOf(axes);
    const int64_t m = t.length / n;
    const int last = x->type.rank() - 1;
    const std::vector<int64_t> whole(x->type.dims.begin(), x->type.dims.end());
    auto ending = [&](std::vector<int64_t> ends) {
      std::vector<int64_t> dims(whole.begin(), whole.end() - 1);
      dims.insert(dims.end(), ends.begin(), ends.end());
      return dims;
    };
    // [r, 1] of one part to [a stretch of r, d].
    x = e_.AllToAll(b_.Reshape(x, ending({m, 1})), last, last + 1, axes);
    x = Turn(Last(x, t.kind, n), t, axes);
    // [a stretch of r, k mod n] to [r, 1], stretches in order.
    x = e_.AllToAll(x, last + 1, last, axes);
    x = Last(b_.Reshape(x, ending({m})), t.kind, m);
    // [k / n, 1] of one k mod n to [a stretch of k / n, k mod n].
    x = e_.AllToAll(b_.Reshape(x, ending({m, 1})), last, last + 1, axes);
    return b_.Reshape(x, ending({m}));
  }

  // x[..., r, k] exp(∓2 pi i r k / N), r counted from where this part's stretch begins.
  ir::Value* Turn(ir::Value* x, const Transform& t, const AxisList& axes) {
    const int rank = x->type.rank();
    const ir::Type table =
        ir::Type::Tensor(ElementType::kF64, {x->type.dims[rank - 2], x->type.dims[rank - 1]});
    const ir::Type scalar = ir::Type::Scalar(ElementType::kF64);
    ir::Value* begin =
        b_.Binary(ir::OpKind::kMultiply, b_.Convert(e_.Coordinate(axes), ElementType::kF64),
                  b_.Splat(scalar, static_cast<double>(table.dims[0])));
    ir::Value* r =
        b_.Binary(ir::OpKind::kAdd, b_.Iota(table, 0), b_.BroadcastInDim(begin, table.dims, {}));
    const double step = (IsInverse(t.kind) ? 2 : -2) * std::numbers::pi;
    ir::Value* angle =
        b_.Binary(ir::OpKind::kMultiply, b_.Binary(ir::OpKind::kMultiply, r, b_.Iota(table, 1)),
                  b_.Splat(table, step / static_cast<double>(t.length)));
    const ElementType real = RealOf(x->type.element);
    ir::Value* cosine = b_.Convert(b_.Unary(ir::OpKind::kCosine, angle), real);
    ir::Value* turn = b_.Complex(cosine, b_.Convert(b_.Unary(ir::OpKind::kSine, angle), real));
    const int64_t at[] = {rank - 2, rank - 1};
    return b_.Binary(ir::OpKind::kMultiply, x, b_.BroadcastInDim(turn, x->type.dims, at));
  }

  Emitter& e_;
  ir::Builder& b_;
};

}  // namespace

OpRule FftRule(const ir::Op& op) {
  OpRule rule;
  const ir::Type& shape = op.result()->type;
  if (shape.num_elements() == 0 || op.operand(0)->type.num_elements() == 0)
    return ReplicatedRule(op);
  const int first = shape.rank() - static_cast<int>(op.IntList("fft_length").size());
  TensorFactors tensor;
  for (int d = 0; d < shape.rank(); ++d) {
    const int f = d < first ? rule.AddFactor(shape.dims[d]) : rule.AddWindow(shape.dims[d]);
    tensor.push_back({f});
    if (d >= first) rule.blocked.push_back(f);  // where a transform leaves its axes is open
  }
  rule.operands = {tensor};
  rule.results = {std::move(tensor)};
  return rule;
}

double FftExchange(const ir::Op& op, const OpRule& rule, const FactorAxes& axes, const Mesh& mesh) {
  const Sharding sharding = FromFactors(rule, rule.operands[0], axes, mesh);
  return Planner(op, sharding, sharding, mesh).Make().cost;
}

LocalResults EmitFft(LocalOp& local) {
  FftEmitter emitter(local.e);
  if (!local.rule.Exchanges(local.axes, local.mesh())) return emitter.AsIs(local);
  // Where the result is wanted split over the same axes in another way it goes there at once.
  Sharding& to = local.result_shardings[0];
  if (local.wanted[0].used() == to.used()) to = local.wanted[0];
  const Plan plan = Planner(local.op, local.operand_shardings[0], to, local.mesh()).Make();
  ir::Value* x = local.operands[0];
  ir::Type type = local.op.operand(0)->type;
  Sharding now = local.operand_shardings[0];
  for (const Transform& t : plan.transforms) {
    if (t.moved) {
      x = EmitReshard(local.e, x, type, now, *t.moved, local.manual);
      now = *t.moved;
    }
    x = t.four_steps ? emitter.InFourSteps(x, t, now.dims[t.dim]) : emitter.Along(x, t);
    type = After(std::move(type), t);
  }
  return std::vector<ir::Value*>{EmitReshard(local.e, x, type, now, to, local.manual)};
}

}  // namespace shardway::spmd
