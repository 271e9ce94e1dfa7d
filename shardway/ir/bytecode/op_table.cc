#include "shardway/ir/bytecode/op_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shardway::ir::bytecode {
namespace {

std::vector<std::string> Split(std::string_view list, char separator) {
  return absl::StrSplit(absl::string_view(list.data(), list.size()), separator, absl::SkipEmpty());
}

// The same name means the same thing at every operator, but for the few in RuleOf.
const absl::flat_hash_map<std::string, Rule>& RulesByName() {
  static const auto* const rules = [] {
    auto* map = new absl::flat_hash_map<std::string, Rule>;
    auto add = [map](Rule rule, std::string_view names) {
      for (std::string& name : Split(names, ' ')) map->emplace(std::move(name), rule);
    };
    add(Rule::kInts,
        "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
        "rhs_contracting_dimensions broadcast_dimensions broadcast_sizes window_strides padding "
        "lhs_dilation rhs_dilation input_spatial_dimensions kernel_spatial_dimensions "
        "output_spatial_dimensions offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map slice_sizes fft_length dimensions "
        "edge_padding_low edge_padding_high interior_padding window_dimensions base_dilations "
        "window_dilations update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims start_indices limit_indices "
        "strides permutation");
    add(Rule::kNonEmptyInts, "known_expanding_dimensions known_nonexpanding_dimensions");
    add(Rule::kBools, "window_reversal");
    add(Rule::kGroups, "replica_groups");
    add(Rule::kPairs, "source_target_pairs");
    add(Rule::kSymbol, "callee decomposition");
    add(Rule::kSymbols, "called_computations");
    add(Rule::kFlag,
        "use_global_device_ids has_dynamic_root has_side_effect is_host_transfer is_stable "
        "indices_are_sorted unique_indices");
    add(Rule::kNonZero, "channel_id");
    add(Rule::kNonEmpty,
        "backend_config output_operand_aliases result_tilings infeed_config outfeed_config layout "
        "composite_attributes");
    add(Rule::kEnum, "comparison_direction fft_type rng_algorithm rng_distribution transpose_a");
    add(Rule::kInt32, "exponent_bits index mantissa_bits");
    add(Rule::kPrecisions, "precision_config");
    add(Rule::kCompareType, "compare_type");
    add(Rule::kApiVersion, "api_version");
    add(Rule::kElement, "lhs_precision_type rhs_precision_type accumulation_type");
    add(Rule::kUnlessNone,
        "lhs_component_count rhs_component_count num_primitive_operations "
        "allow_imprecise_accumulation");
    add(Rule::kAccuracy, "result_accuracy");
    return map;
  }();
  return *rules;
}

Rule RuleOf(std::string_view op, std::string_view attribute) {
  if (op == "cholesky" && attribute == "lower") return Rule::kFlag;
  if (op == "composite" && attribute == "version") return Rule::kNonZero;
  // Before version 0.20 a padding attribute stood beside the operand that replaced it.
  if (op == "dynamic_conv" && attribute == "padding") return Rule::kDrop;
  const auto it = RulesByName().find(std::string(attribute));
  return it == RulesByName().end() ? Rule::kKeep : it->second;
}

using Table = absl::flat_hash_map<std::string, OpSpec>;

void AddVhlo(Table& table, const char* base, int version, const char* attributes) {
  OpSpec spec;
  spec.name = absl::StrCat("vhlo.", base, "_v", version);
  const std::string_view name = base;
  if (name == "func") {
    spec.role = Role::kFunction;
  } else if (name == "return") {
    spec.role = Role::kReturn;
    spec.kind = OpKind::kReturn;
  } else if (name == "call") {
    spec.kind = OpKind::kCall;
  } else {
    spec.kind = OpKindFromName(absl::StrCat("stablehlo.", base)).value_or(OpKind::kCustomCall);
  }
  for (std::string& attribute : Split(attributes, ',')) {
    const Rule rule = RuleOf(name, attribute);
    spec.attributes.push_back({std::move(attribute), rule, false});
  }
  std::sort(spec.attributes.begin(), spec.attributes.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  table.emplace(spec.name, std::move(spec));
}

// `attributes` in alphabetical order, a '?' behind what may be absent.
void AddOther(Table& table, const char* name, Role role, const char* attributes) {
  OpSpec spec;
  spec.name = name;
  spec.role = role;
  spec.kind = OpKindFromName(name).value_or(OpKind::kSdyReturn);
  for (std::string& attribute : Split(attributes, ',')) {
    const bool optional = attribute.back() == '?';
    if (optional) attribute.pop_back();
    spec.attributes.push_back({std::move(attribute), Rule::kKeep, optional});
  }
  table.emplace(spec.name, std::move(spec));
}

const Table& AllOps() {
  static const auto* const table = [] {
    auto* t = new Table;
#define X(base, version, first, last, attributes) AddVhlo(*t, base, version, attributes);
#include "shardway/ir/bytecode/vhlo_ops.inc"
#undef X
    AddOther(*t, "builtin.module", Role::kModule, "sym_name?,sym_visibility?");
    AddOther(*t, "builtin.unrealized_conversion_cast", Role::kCast, "");
    AddOther(*t, "sdy.mesh", Role::kMesh, "mesh,sym_name");
    const Role op = Role::kOperator;
    AddOther(*t, "sdy.sharding_constraint", op, "sharding");
    AddOther(*t, "sdy.reshard", op, "sharding");
    AddOther(*t, "sdy.sharding_group", op, "group_id");
    AddOther(*t, "sdy.propagation_barrier", op, "allowed_direction");
    AddOther(*t, "sdy.manual_computation", op, "in_shardings,manual_axes,out_shardings");
    AddOther(*t, "sdy.named_computation", op, "in_shardings?,name,out_shardings?");
    AddOther(*t, "sdy.data_flow_edge", op, "sharding?");
    AddOther(*t, "sdy.constant", op, "value");
    AddOther(*t, "sdy.all_gather", op, "gathering_axes,out_sharding");
    AddOther(*t, "sdy.all_reduce", op, "out_sharding,reduction_axes");
    AddOther(*t, "sdy.all_slice", op, "out_sharding,slicing_axes");
    AddOther(*t, "sdy.all_to_all", op, "out_sharding,params");
    AddOther(*t, "sdy.collective_permute", op, "out_sharding");
    AddOther(*t, "sdy.reduce_scatter", op, "out_sharding,reduce_scatter_axes");
    AddOther(*t, "sdy.replicated_to_unreduced", op, "axes,out_sharding");
    AddOther(*t, "sdy.sharded_to_unreduced", op, "axes,out_sharding");
    AddOther(*t, "sdy.return", op, "");
    return t;
  }();
  return *table;
}

}  // namespace

const OpSpec::Attribute* OpSpec::Find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

const OpSpec* FindOp(std::string_view dialect, std::string_view name) {
  std::string full(dialect);
  full += '.';
  full += name;
  const auto it = AllOps().find(full);
  return it == AllOps().end() ? nullptr : &it->second;
}

}  // namespace shardway::ir::bytecode
