// StableHLO groups attributes (dimension numbers, channel handles) that the IR keeps apart:
// here they are put together again.
#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "shardway/ir/text_parts.h"

namespace shardway::ir::text {
namespace {

enum class Form : uint8_t { kInt, kIntList, kType, kBool };
struct Member {
  std::string_view name;
  Form form;
};
// Attributes that become one: `name = opening member = value, member = value>`.
struct Group {
  std::string_view name;
  std::string_view opening;
  std::vector<Member> members;
};

const std::vector<Group>& GroupsOf(OpKind kind) {
  static const auto* const none = new std::vector<Group>;
  static const auto* const dot =
      new std::vector<Group>{{"dot_dimension_numbers",
                              "#stablehlo.dot<",
                              {{"lhs_batching_dimensions", Form::kIntList},
                               {"rhs_batching_dimensions", Form::kIntList},
                               {"lhs_contracting_dimensions", Form::kIntList},
                               {"rhs_contracting_dimensions", Form::kIntList}}},
                             {"algorithm",
                              "#stablehlo.dot_algorithm<",
                              {{"lhs_precision_type", Form::kType},
                               {"rhs_precision_type", Form::kType},
                               {"accumulation_type", Form::kType},
                               {"lhs_component_count", Form::kInt},
                               {"rhs_component_count", Form::kInt},
                               {"num_primitive_operations", Form::kInt},
                               {"allow_imprecise_accumulation", Form::kBool}}}};
  static const auto* const convolution =
      new std::vector<Group>{{"dimension_numbers",
                              "#stablehlo.conv<raw ",
                              {{"input_batch_dimension", Form::kInt},
                               {"input_feature_dimension", Form::kInt},
                               {"input_spatial_dimensions", Form::kIntList},
                               {"kernel_input_feature_dimension", Form::kInt},
                               {"kernel_output_feature_dimension", Form::kInt},
                               {"kernel_spatial_dimensions", Form::kIntList},
                               {"output_batch_dimension", Form::kInt},
                               {"output_feature_dimension", Form::kInt},
                               {"output_spatial_dimensions", Form::kIntList}}}};
  static const auto* const gather =
      new std::vector<Group>{{"dimension_numbers",
                              "#stablehlo.gather<",
                              {{"offset_dims", Form::kIntList},
                               {"collapsed_slice_dims", Form::kIntList},
                               {"operand_batching_dims", Form::kIntList},
                               {"start_indices_batching_dims", Form::kIntList},
                               {"start_index_map", Form::kIntList},
                               {"index_vector_dim", Form::kInt}}}};
  static const auto* const scatter =
      new std::vector<Group>{{"scatter_dimension_numbers",
                              "#stablehlo.scatter<",
                              {{"update_window_dims", Form::kIntList},
                               {"inserted_window_dims", Form::kIntList},
                               {"input_batching_dims", Form::kIntList},
                               {"scatter_indices_batching_dims", Form::kIntList},
                               {"scatter_dims_to_operand_dims", Form::kIntList},
                               {"index_vector_dim", Form::kInt}}}};
  switch (kind) {
    case OpKind::kDotGeneral:
      return *dot;
    case OpKind::kConvolution:
    case OpKind::kDynamicConv:
      return *convolution;
    case OpKind::kGather:
    case OpKind::kDynamicGather:
      return *gather;
    case OpKind::kScatter:
      return *scatter;
    default:
      return *none;
  }
}

bool InGroup(OpKind kind, std::string_view name) {
  for (const Group& group : GroupsOf(kind)) {
    for (const Member& member : group.members) {
      if (member.name == name) return true;
    }
  }
  return false;
}

void AppendMember(std::string& out, const Op& op, const Member& member) {
  switch (member.form) {
    case Form::kInt:
      absl::StrAppend(&out, op.Int(member.name));
      break;
    case Form::kBool:
      out += op.Bool(member.name) ? "true" : "false";
      break;
    case Form::kIntList:
      out += '[';
      AppendInts(out, op.IntList(member.name));
      out += ']';
      break;
    case Form::kType: {
      const Attribute* attribute = op.Find(member.name);
      const auto* type = attribute == nullptr ? nullptr : attribute->get_if<Type>();
      out += type == nullptr ? "f32" : ElementTypeName(type->element);
      break;
    }
  }
}

bool IsCollective(OpKind kind) {
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kAllReduce:
    case OpKind::kAllToAll:
    case OpKind::kCollectiveBroadcast:
    case OpKind::kCollectiveReduce:
    case OpKind::kCollectivePermute:
    case OpKind::kReduceScatter:
      return true;
    default:
      return false;
  }
}

bool IsWindowed(OpKind kind) {
  return kind == OpKind::kConvolution || kind == OpKind::kDynamicConv ||
         kind == OpKind::kReduceWindow || kind == OpKind::kSelectAndScatter;
}

// What a windowed operator need not say: strides and dilations of 1, no padding, no reversal.
bool IsWindowDefault(std::string_view name, const Attribute& attribute) {
  if (const auto* reversal = attribute.get_if<std::vector<bool>>()) {
    return std::find(reversal->begin(), reversal->end(), true) == reversal->end();
  }
  const auto* values = attribute.get_if<std::vector<int64_t>>();
  if (values == nullptr) return false;
  int64_t usual = 1;
  if (name == "padding") {
    usual = 0;
  } else if (name != "window_strides" && !name.ends_with("_dilation") &&
             !name.ends_with("_dilations")) {
    return false;
  }
  return std::all_of(values->begin(), values->end(), [&](int64_t v) { return v == usual; });
}

// Lists of index numbers, in arrays.
bool IsLayouts(std::string_view name) {
  return name == "operand_layouts" || name == "result_layouts" || name == "result_tilings";
}

// Writes the attributes of one operator.
class OpPrinter {
 public:
  OpPrinter(std::string& out, const Op& op, const TextOptions& options)
      : out_(out), op_(op), options_(options) {}

  void Print() {
    for (const Group& group : GroupsOf(op_.kind)) PrintGroup(group);
    PrintChannel();
    for (const auto& [name, attribute] : op_.attributes) PrintSingle(name, attribute);
    if (!first_) out_ += '}';
  }

 private:
  void Start(std::string_view name) {
    out_ += first_ ? " {" : ", ";
    first_ = false;
    AppendName(out_, name);
  }

  void PrintGroup(const Group& group) {
    if (group.name == "algorithm" && op_.Find("accumulation_type") == nullptr) return;
    Start(group.name);
    out_ += " = ";
    out_ += group.opening;
    for (size_t i = 0; i < group.members.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += group.members[i].name;
      out_ += " = ";
      AppendMember(out_, op_, group.members[i]);
    }
    out_ += '>';
  }

  void PrintChannel() {
    const bool transfer = op_.kind == OpKind::kSend || op_.kind == OpKind::kRecv;
    if (!transfer && (!IsCollective(op_.kind) || op_.Find("channel_id") == nullptr)) return;
    Start("channel_handle");
    absl::StrAppend(&out_, " = #stablehlo.channel_handle<handle = ", op_.Int("channel_id"),
                    ", type = ", op_.Int("channel_type"), ">");
  }

  void PrintSingle(std::string_view name, const Attribute& attribute) {
    if (!options_.sdy && name.starts_with("sdy.")) return;
    if (InGroup(op_.kind, name)) return;
    if (name == "channel_id" || name == "channel_type") {
      if (IsCollective(op_.kind) || op_.kind == OpKind::kSend || op_.kind == OpKind::kRecv) return;
    }
    if (IsWindowed(op_.kind) && IsWindowDefault(name, attribute)) return;
    const bool flag = name == "use_global_device_ids" || name == "has_dynamic_root";
    if (flag && !op_.Bool(name)) return;
    Start(name);
    if (flag || attribute.get_if<Unit>() != nullptr) return;
    out_ += " = ";
    const auto* ints = attribute.get_if<std::vector<int64_t>>();
    const auto* array = attribute.get_if<std::shared_ptr<const AttrArray>>();
    if (ints != nullptr && (name == "padding" || name == "source_target_pairs")) {
      AppendDenseInts(out_, absl::StrCat(ints->size() / 2, "x2xi64"), *ints, 2);
    } else if (array != nullptr && IsLayouts(name)) {
      PrintLayouts(**array);
    } else {
      AppendAttribute(out_, attribute, options_);
    }
  }

  void PrintLayouts(const AttrArray& layouts) {
    out_ += '[';
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (i > 0) out_ += ", ";
      const auto* layout = layouts[i].get_if<std::vector<int64_t>>();
      const auto* nested = layouts[i].get_if<std::shared_ptr<const AttrArray>>();
      if (layout != nullptr) {
        AppendDenseInts(out_, absl::StrCat(layout->size(), "xindex"), *layout, 1);
      } else if (nested != nullptr) {
        PrintLayouts(**nested);
      } else {
        AppendAttribute(out_, layouts[i], options_);
      }
    }
    out_ += ']';
  }

  std::string& out_;
  const Op& op_;
  const TextOptions& options_;
  bool first_ = true;
};

}  // namespace

void AppendOpAttributes(std::string& out, const Op& op, const TextOptions& options) {
  OpPrinter(out, op, options).Print();
}

}  // namespace shardway::ir::text
