#include "absl/strings/str_cat.h"
#include "shardway/ir/text_parts.h"

namespace shardway::ir::text {
namespace {

// Factors are i, j, …, z, then z_1, z_2, …
void AppendFactor(std::string& out, int64_t index) {
  constexpr int64_t kLetters = 'z' - 'i' + 1;
  if (index < kLetters) {
    out += static_cast<char>('i' + index);
  } else {
    absl::StrAppend(&out, "z_", index - kLetters + 1);
  }
}

void AppendMappings(std::string& out, const std::vector<SdyShardingRule::TensorMapping>& tensors) {
  out += '(';
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (t > 0) out += ", ";
    out += '[';
    for (size_t d = 0; d < tensors[t].size(); ++d) {
      if (d > 0) out += ", ";
      for (int64_t factor : tensors[t][d]) AppendFactor(out, factor);
    }
    out += ']';
  }
  out += ')';
}

void AppendFactors(std::string& out, std::string_view keyword,
                   const std::vector<int64_t>& factors) {
  if (factors.empty()) return;
  out += ' ';
  out += keyword;
  out += "={";
  for (size_t i = 0; i < factors.size(); ++i) {
    if (i > 0) out += ", ";
    AppendFactor(out, factors[i]);
  }
  out += '}';
}

void AppendDim(std::string& out, const SdyDimSharding& dim) {
  out += '{';
  AppendAxes(out, dim.axes);
  if (!dim.closed) out += dim.axes.empty() ? "?" : ", ?";
  out += '}';
  if (dim.priority) absl::StrAppend(&out, "p", *dim.priority);
}

}  // namespace

void AppendAxes(std::string& out, const std::vector<SdyAxisRef>& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) out += ", ";
    AppendQuoted(out, axes[i].name);
    if (axes[i].sub_axis) {
      absl::StrAppend(&out, ":(", axes[i].sub_axis->first, ")", axes[i].sub_axis->second);
    }
  }
}

void AppendMesh(std::string& out, const SdyMesh& mesh) {
  out += "<[";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) out += ", ";
    AppendQuoted(out, mesh.axes[i].name);
    absl::StrAppend(&out, "=", mesh.axes[i].size);
  }
  out += ']';
  if (!mesh.device_ids.empty()) {
    out += ", device_ids=[";
    AppendInts(out, mesh.device_ids);
    out += ']';
  }
  out += '>';
}

void AppendSharding(std::string& out, const SdySharding& sharding) {
  out += '<';
  if (sharding.mesh) {
    out += "mesh";
    AppendMesh(out, *sharding.mesh);
  } else {
    AppendSymbol(out, sharding.mesh_name);
  }
  out += ", [";
  for (size_t i = 0; i < sharding.dims.size(); ++i) {
    if (i > 0) out += ", ";
    AppendDim(out, sharding.dims[i]);
  }
  out += ']';
  if (!sharding.replicated.empty()) {
    out += ", replicated={";
    AppendAxes(out, sharding.replicated);
    out += '}';
  }
  if (!sharding.unreduced.empty()) {
    constexpr std::string_view kReductions[] = {"", "max", "min"};
    out += ", unreduced=";
    if (sharding.reduction > 0 && sharding.reduction < 3) out += kReductions[sharding.reduction];
    out += '{';
    AppendAxes(out, sharding.unreduced);
    out += '}';
  }
  out += '>';
}

void AppendShardingRule(std::string& out, const SdyShardingRule& rule) {
  out += '<';
  AppendMappings(out, rule.operands);
  out += "->";
  AppendMappings(out, rule.results);
  if (!rule.factor_sizes.empty()) {
    out += " {";
    for (size_t i = 0; i < rule.factor_sizes.size(); ++i) {
      if (i > 0) out += ", ";
      AppendFactor(out, static_cast<int64_t>(i));
      absl::StrAppend(&out, "=", rule.factor_sizes[i]);
    }
    out += '}';
  }
  AppendFactors(out, "reduction", rule.reduction_factors);
  AppendFactors(out, "need_replication", rule.need_replication_factors);
  AppendFactors(out, "permutation", rule.permutation_factors);
  AppendFactors(out, "blocked_propagation", rule.blocked_propagation_factors);
  if (rule.is_custom) out += ", custom";
  out += '>';
}

void AppendAllToAllParams(std::string& out, const SdyAllToAllParams& params) {
  for (size_t i = 0; i < params.params.size(); ++i) {
    if (i > 0) out += ", ";
    out += '{';
    AppendAxes(out, params.params[i].axes);
    absl::StrAppend(&out, "}: ", params.params[i].source_dim, "->", params.params[i].target_dim);
  }
}

}  // namespace shardway::ir::text
