// Products: dots, convolutions, factorisations, transforms.
#include <algorithm>

#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

bool Contains(const std::vector<int64_t>& list, int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

// The lists name equally long, equally sized dimensions; a dimension only once over both pairs.
bool Pairs(Check& c, const std::vector<int64_t>& left, const std::vector<int64_t>& right) {
  if (!c.Require(left.size() == right.size(), "its dimension numbers differ in length")) {
    return false;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    if (!c.Require(SameSize(c.in(0).dim(static_cast<int>(left[i])),
                            c.in(1).dim(static_cast<int>(right[i]))),
                   "dimensions that belong together differ in size")) {
      return false;
    }
  }
  return true;
}

void AppendFree(const Type& type, const std::vector<int64_t>& batch,
                const std::vector<int64_t>& contracting, std::vector<Wide>& dims) {
  for (int i = 0; i < type.rank(); ++i) {
    if (!Contains(batch, i) && !Contains(contracting, i)) dims.push_back(type.dim(i));
  }
}

void VerifyDotGeneral(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  const auto* left_batch = c.Dimensions("lhs_batching_dimensions", c.in(0).rank());
  const auto* right_batch = c.Dimensions("rhs_batching_dimensions", c.in(1).rank());
  const auto* left = c.Dimensions("lhs_contracting_dimensions", c.in(0).rank());
  const auto* right = c.Dimensions("rhs_contracting_dimensions", c.in(1).rank());
  if (!c.ok() || !Pairs(c, *left_batch, *right_batch) || !Pairs(c, *left, *right)) return;
  for (size_t i = 0; i < left->size(); ++i) {
    c.Require(!Contains(*left_batch, (*left)[i]) && !Contains(*right_batch, (*right)[i]),
              "a dimension is both contracted and batched");
  }
  c.Require(
      c.op().Find("lhs_precision_type") == nullptr || c.op().Find("precision_config") == nullptr,
      "it has an algorithm and precisions");
  for (const char* count :
       {"lhs_component_count", "rhs_component_count", "num_primitive_operations"}) {
    if (c.op().Find(count) != nullptr && !c.IntIn(count, 1, INT64_MAX)) return;
  }
  std::vector<Wide> dims;
  for (const int64_t d : *left_batch) dims.push_back(c.in(0).dim(static_cast<int>(d)));
  AppendFree(c.in(0), *left_batch, *left, dims);
  AppendFree(c.in(1), *right_batch, *right, dims);
  c.ResultDims(dims);
}

void VerifyDot(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  const Type& a = c.in(0);
  const Type& b = c.in(1);
  if (!c.Require(a.rank() >= 1 && a.rank() <= 2 && b.rank() >= 1 && b.rank() <= 2 &&
                     SameSize(a.dims.back(), b.dims.front()),
                 "its operands are no vectors or matrices that fit together")) {
    return;
  }
  std::vector<Wide> dims(a.dims.begin(), a.dims.end() - 1);
  dims.insert(dims.end(), b.dims.begin() + 1, b.dims.end());
  c.ResultDims(dims);
}

// {batch, feature, spatial…} is a permutation of the rank's dimensions.
bool Permutes(Check& c, int rank, std::string_view batch, std::string_view feature,
              std::string_view spatial) {
  std::vector<int64_t> all = c.op().IntList(spatial);
  all.push_back(c.op().Int(batch, -1));
  all.push_back(c.op().Int(feature, -1));
  std::sort(all.begin(), all.end());
  bool fits = static_cast<int>(all.size()) == rank;
  for (int i = 0; fits && i < rank; ++i) fits = all[i] == i;
  return c.Require(fits, "its dimension numbers are no permutation");
}

void VerifyConvolution(Check& c) {
  const bool dynamic = c.op().kind == OpKind::kDynamicConv;
  if (!c.Counts(dynamic ? 3 : 2) || !c.AllTensors()) return;
  const Op& op = c.op();
  const Type& input = c.in(0);
  const Type& kernel = c.in(1);
  const Type& output = c.out();
  if (!Permutes(c, input.rank(), "input_batch_dimension", "input_feature_dimension",
                "input_spatial_dimensions") ||
      !Permutes(c, kernel.rank(), "kernel_input_feature_dimension",
                "kernel_output_feature_dimension", "kernel_spatial_dimensions") ||
      !Permutes(c, output.rank(), "output_batch_dimension", "output_feature_dimension",
                "output_spatial_dimensions") ||
      !c.Require(input.rank() == kernel.rank() && input.rank() == output.rank(),
                 "its operands and result differ in rank")) {
    return;
  }
  const int spatial = input.rank() - 2;
  const auto* strides = c.List("window_strides", spatial);
  const auto* left = c.List("lhs_dilation", spatial);
  const auto* right = c.List("rhs_dilation", spatial);
  const int64_t groups = op.Int("feature_group_count", 1);
  const int64_t batch_groups = op.Int("batch_group_count", 1);
  if (!c.ok() || !c.Require(groups >= 1 && batch_groups >= 1 && (groups == 1 || batch_groups == 1),
                            "its group counts are out of range")) {
    return;
  }
  auto size = [&op](const Type& type, std::string_view name) {
    return type.dim(static_cast<int>(op.Int(name)));
  };
  const int64_t features = size(input, "input_feature_dimension");
  const int64_t batch = size(input, "input_batch_dimension");
  const int64_t kernel_in = size(kernel, "kernel_input_feature_dimension");
  const int64_t kernel_out = size(kernel, "kernel_output_feature_dimension");
  c.Require(features == kDynamic || kernel_in == kDynamic || Wide{kernel_in} * groups == features,
            "its kernel has another number of input features");
  c.Require(kernel_out == kDynamic || (kernel_out % groups == 0 && kernel_out % batch_groups == 0),
            "its groups do not divide the output features");
  c.Require(batch == kDynamic || batch % batch_groups == 0, "its groups do not divide the batch");
  if (!c.ok()) return;

  std::vector<Wide> dims(output.rank(), kDynamic);
  dims[op.Int("output_feature_dimension")] = kernel_out;
  dims[op.Int("output_batch_dimension")] = batch == kDynamic ? kDynamic : batch / batch_groups;
  const std::vector<int64_t>* padding = dynamic ? nullptr : c.List("padding", 2 * spatial);
  for (int i = 0; i < spatial; ++i) {
    if (!c.Require((*strides)[i] >= 1 && (*left)[i] >= 1 && (*right)[i] >= 1,
                   "a stride or dilation is not positive")) {
      return;
    }
    if (padding == nullptr) continue;
    const Wide in = input.dim(static_cast<int>(op.IntList("input_spatial_dimensions")[i]));
    const Wide k = kernel.dim(static_cast<int>(op.IntList("kernel_spatial_dimensions")[i]));
    if (in < 0 || k < 0) continue;
    const Wide dilated = in == 0 ? Wide{0} : (in - 1) * (*left)[i] + 1;
    const Wide padded = dilated + (*padding)[2 * i] + (*padding)[2 * i + 1];
    const Wide window = k == 0 ? Wide{0} : (k - 1) * (*right)[i] + 1;
    dims[op.IntList("output_spatial_dimensions")[i]] =
        padded < window || padded <= 0 ? Wide{0} : (padded - window) / (*strides)[i] + 1;
  }
  c.ResultDims(dims);
}

// The last two dimensions are square matrices.
bool IsSquare(const Type& type) {
  return type.rank() >= 2 && SameSize(type.dim(type.rank() - 1), type.dim(type.rank() - 2));
}

void VerifyCholesky(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  c.Require(IsSquare(c.in()), "its operand holds no square matrices");
  c.SameAsOperand(0, 0);
}

void VerifyTriangularSolve(Check& c) {
  if (!c.Counts(2) || !c.AllTensors()) return;
  const Type& a = c.in(0);
  const Type& b = c.in(1);
  if (!c.Require(IsSquare(a) && a.rank() == b.rank() && a.element == b.element,
                 "its operands are no matrices that fit together")) {
    return;
  }
  for (int i = 0; i + 2 < a.rank(); ++i) {
    c.Require(SameSize(a.dim(i), b.dim(i)), "its batch dimensions differ");
  }
  const int side = b.rank() - (c.op().Bool("left_side") ? 2 : 1);
  c.Require(SameSize(a.dims.back(), b.dim(side)), "its matrices differ in size");
  c.Require(!c.op().String("transpose_a").empty(), "it has no transpose_a");
  c.SameAsOperand(0, 1);
}

void VerifyFft(Check& c) {
  if (!c.Counts(1) || !c.AllTensors()) return;
  const auto* length = c.List("fft_length");
  if (length == nullptr) return;
  const auto n = static_cast<int>(length->size());
  const Type& in = c.in();
  const Type& out = c.out();
  const std::string_view type = c.op().String("fft_type");
  if (!c.Require(n >= 1 && n <= 3 && in.rank() >= n && in.rank() == out.rank() && !type.empty(),
                 "its lengths do not fit its operand")) {
    return;
  }
  for (int i = 0; i < in.rank(); ++i) {
    if (i + n < in.rank()) {
      c.Require(SameSize(in.dim(i), out.dim(i)), "its result has another shape");
      continue;
    }
    const int64_t full = (*length)[i + n - in.rank()];
    const bool halved = i + 1 == in.rank();
    const int64_t half = full / 2 + 1;
    c.Require(full >= 0 && SameSize(in.dim(i), halved && type == "IRFFT" ? half : full) &&
                  SameSize(out.dim(i), halved && type == "RFFT" && full > 0 ? half : full),
              "its lengths do not fit its operand and result");
  }
}

}  // namespace

void VerifyContraction(Check& c) {
  switch (c.op().kind) {
    case OpKind::kDotGeneral:
      return VerifyDotGeneral(c);
    case OpKind::kDot:
      return VerifyDot(c);
    case OpKind::kConvolution:
    case OpKind::kDynamicConv:
      return VerifyConvolution(c);
    case OpKind::kCholesky:
      return VerifyCholesky(c);
    case OpKind::kTriangularSolve:
      return VerifyTriangularSolve(c);
    case OpKind::kFft:
      return VerifyFft(c);
    case OpKind::kEinsum:
      if (c.Counts(2)) c.AllTensors();
      return;
    case OpKind::kUnaryEinsum:
      if (c.Counts(1)) c.AllTensors();
      return;
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
