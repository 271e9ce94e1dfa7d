#include "shardway/compile/work_estimate.h"

#include <algorithm>
#include <optional>

#include "shardway/compile/trip_counts.h"
#include "shardway/ir/trip_count.h"

namespace shardway::compile {
namespace {

constexpr double kFlopsPerUs = 20'000;  // of a dense contraction
constexpr double kBytesPerUs = 5'000;   // of everything else
constexpr double kUsPerOp = 0.05;
constexpr double kDefaultTrips = 16;

struct Cost {
  double us = 0;
  double flops = 0;
};

double ContractionFlops(const ir::Op& op) {
  double flops = 2.0 * static_cast<double>(op.result()->type.num_elements());
  if (op.kind == ir::OpKind::kDotGeneral) {
    for (int64_t d : op.IntList("lhs_contracting_dimensions")) {
      flops *= static_cast<double>(op.operand(0)->type.dims[d]);
    }
    return flops;
  }
  // Convolution: every output element takes in a whole kernel but for its output features.
  const ir::Type& kernel = op.operand(1)->type;
  const int64_t features = kernel.dims[op.Int("kernel_output_feature_dimension")];
  return flops * static_cast<double>(kernel.num_elements()) /
         static_cast<double>(std::max<int64_t>(features, 1));
}

Cost OwnCost(const ir::Op& op) {
  if (op.kind == ir::OpKind::kConstant || op.kind == ir::OpKind::kReturn) return {};
  Cost cost{kUsPerOp, 0};
  if (op.kind == ir::OpKind::kDotGeneral || op.kind == ir::OpKind::kConvolution) {
    cost.flops = ContractionFlops(op);
    cost.us += cost.flops / kFlopsPerUs;
    return cost;
  }
  double bytes = 0;
  for (const ir::Value* v : op.results) {
    if (!v->type.is_tensor() || !v->type.is_static()) continue;
    bytes += static_cast<double>(v->type.num_bytes());
    cost.flops += static_cast<double>(v->type.num_elements());
  }
  if (op.kind == ir::OpKind::kReduce) bytes += static_cast<double>(op.operand(0)->type.num_bytes());
  cost.us += bytes / kBytesPerUs;
  return cost;
}

class Estimator {
 public:
  explicit Estimator(std::vector<collective::Spec>& collectives) : collectives_(collectives) {}

  // `last` is the collective whose work is being counted, -1 before the first.
  Cost Walk(const ir::Region& region, int& last) {
    Cost total;
    for (const ir::Op* op : region.ops) {
      Cost cost;
      if (const auto site = Site(*op)) {
        last = *site;
        if (first_ < 0) first_ = *site;
        continue;
      }
      if (op->kind == ir::OpKind::kWhile) {
        cost = Loop(*op, last);
      } else if (op->kind == ir::OpKind::kIf || op->kind == ir::OpKind::kCase) {
        for (const ir::Region* branch : op->regions) {
          const Cost one = Walk(*branch, last);
          cost.us = std::max(cost.us, one.us);
          cost.flops = std::max(cost.flops, one.flops);
        }
      } else {
        cost = OwnCost(*op);
        Charge(last, cost.us);
      }
      total.us += cost.us;
      total.flops += cost.flops;
    }
    return total;
  }

 private:
  Cost Loop(const ir::Op& op, int& last) {
    const double trips = ir::TripCount(op).value_or(kDefaultTrips);
    const int before = last;
    const int outer_first = first_;
    first_ = -1;
    int inside = -1;
    lead_ = 0;
    const Cost once = Walk(*op.regions[1], inside);
    if (inside < 0) {
      Charge(before, once.us * trips);  // no collective in it: one stretch of work
    } else {
      // From the last collective around to the first.
      Charge(inside, lead_);
      Charge(before, lead_);
      last = inside;
    }
    if (outer_first >= 0) first_ = outer_first;
    return {once.us * trips, once.flops * trips};
  }

  void Charge(int site, double us) {
    if (site >= 0) {
      collectives_[site].work_after_us += us;
    } else {
      lead_ += us;
    }
  }

  std::optional<int> Site(const ir::Op& op) const {
    const auto site = SiteOf(op);
    return site && *site < static_cast<int>(collectives_.size()) ? site : std::nullopt;
  }

  std::vector<collective::Spec>& collectives_;
  double lead_ = 0;  // work before the first collective of a loop's body
  int first_ = -1;
};

}  // namespace

double EstimateWork(const ir::Module& module, std::vector<collective::Spec>& collectives) {
  int last = -1;
  return Estimator(collectives).Walk(*module.main()->body, last).flops;
}

}  // namespace shardway::compile
