// Batch normalisation, as StableHLO defines it. With x over features, everything else elementwise:
//
//   training    m = sum(x) / n;  v = sum((x - m)^2) / n;  y as in inference, of m and v
//   inference   y = (x - m) * (scale / sqrt(v + epsilon)) + offset
//   gradient    of x       (g - sum(g) / n - c * (sum(g * c) / n / (v + epsilon))) * scale / d
//               of scale   sum(g * c) / d
//               of offset  sum(g)          where c = x - m, d = sqrt(v + epsilon)
//
// The two sums of the gradient wait for nothing but x and g: they travel together. What there is
// once for each feature is computed before it is broadcast.
#include <utility>

#include "shardway/spmd/expansion.h"

namespace shardway::spmd {
namespace {

using K = ir::OpKind;

class BatchNorm {
 public:
  BatchNorm(const ir::Op& op, ir::Builder& b)
      : op_(op), b_(b), x_(op.operand(0)), feature_(op.Int("feature_index")) {
    const int64_t features = x_->type.dims[feature_];
    count_ = features == 0 ? 1 : static_cast<double>(x_->type.num_elements() / features);
    for (int d = 0; d < x_->type.rank(); ++d) {
      if (d != feature_) others_.push_back(d);
    }
  }

  ir::Value* x() const { return x_; }
  // An operand, in the elements that are computed with.
  ir::Value* Operand(int i) { return b_.Convert(op_.operand(i), x_->type.element); }
  ir::Value* Sum(ir::Value* v) { return SumOver(b_, v, others_); }
  ir::Value* Mean(ir::Value* sum) {
    return b_.Binary(K::kDivide, sum, b_.Splat(sum->type, count_));
  }
  ir::Value* ForAll(ir::Value* per_feature) {
    return b_.BroadcastInDim(per_feature, x_->type.dims, {feature_});
  }
  ir::Value* Centered(ir::Value* mean) { return b_.Binary(K::kSubtract, x_, ForAll(mean)); }
  ir::Value* Shifted(ir::Value* variance) {
    const ir::Attribute* epsilon = op_.Find("epsilon");
    const auto* value = epsilon != nullptr ? epsilon->get_if<ir::TypedFloat>() : nullptr;
    return b_.Binary(K::kAdd, variance,
                     b_.Splat(variance->type, value != nullptr ? value->value : 0));
  }
  ir::Value* Normalized(ir::Value* centered, ir::Value* variance) {
    ir::Value* deviation = b_.Unary(K::kSqrt, Shifted(variance));
    ir::Value* scale = b_.Binary(K::kDivide, Operand(1), deviation);
    return b_.Binary(K::kAdd, b_.Binary(K::kMultiply, centered, ForAll(scale)), ForAll(Operand(2)));
  }
  std::vector<ir::Value*> Results(std::vector<ir::Value*> values) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = b_.Convert(values[i], op_.results[i]->type.element);
    return values;
  }

 private:
  const ir::Op& op_;
  ir::Builder& b_;
  ir::Value* x_;
  int64_t feature_;
  double count_;  // of the elements that share a feature
  std::vector<int64_t> others_;
};

}  // namespace

Expansion ExpandBatchNormInference(const ir::Op& op, ir::Builder& b) {
  BatchNorm norm(op, b);
  return norm.Results({norm.Normalized(norm.Centered(norm.Operand(3)), norm.Operand(4))});
}

Expansion ExpandBatchNormTraining(const ir::Op& op, ir::Builder& b) {
  BatchNorm norm(op, b);
  ir::Value* mean = norm.Mean(norm.Sum(norm.x()));
  ir::Value* centered = norm.Centered(mean);
  ir::Value* variance = norm.Mean(norm.Sum(b.Binary(K::kMultiply, centered, centered)));
  return norm.Results({norm.Normalized(centered, variance), mean, variance});
}

Expansion ExpandBatchNormGrad(const ir::Op& op, ir::Builder& b) {
  BatchNorm norm(op, b);
  ir::Value* gradient = norm.Operand(4);
  ir::Value* centered = norm.Centered(norm.Operand(2));
  ir::Value* shifted = norm.Shifted(norm.Operand(3));
  ir::Value* deviation = b.Unary(K::kSqrt, shifted);
  ir::Value* of_offset = norm.Sum(gradient);
  ir::Value* product = norm.Sum(b.Binary(K::kMultiply, gradient, centered));
  ir::Value* along = b.Binary(K::kDivide, norm.Mean(product), shifted);
  ir::Value* rest = b.Binary(K::kSubtract, gradient, norm.ForAll(norm.Mean(of_offset)));
  rest = b.Binary(K::kSubtract, rest, b.Binary(K::kMultiply, centered, norm.ForAll(along)));
  ir::Value* scale = b.Binary(K::kDivide, norm.Operand(1), deviation);
  return norm.Results({b.Binary(K::kMultiply, rest, norm.ForAll(scale)),
                       b.Binary(K::kDivide, product, deviation), of_offset});
}

}  // namespace shardway::spmd
