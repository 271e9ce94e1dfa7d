#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "shardway/ir/fault_names.h"
#include "shardway/ir/verify/check.h"

namespace shardway::ir::verify {
namespace {

constexpr int64_t kMaxDevices = 1 << 20;

// The size of an axis reference; 0 when the mesh has no such axis or its part does not divide it.
int64_t SizeOf(const SdyMesh& mesh, const SdyAxisRef& axis) {
  for (const SdyMesh::Axis& candidate : mesh.axes) {
    if (candidate.name != axis.name) continue;
    if (!axis.sub_axis) return candidate.size;
    const auto [pre, size] = *axis.sub_axis;
    const bool divides = pre >= 1 && size >= 1 && pre <= candidate.size &&
                         size <= candidate.size / pre && candidate.size % (pre * size) == 0;
    return divides ? size : 0;
  }
  return 0;
}

// A mesh without axes is yet to be found.
bool HasAxis(const SdyMesh& mesh, std::string_view name) {
  return mesh.axes.empty() ||
         std::any_of(mesh.axes.begin(), mesh.axes.end(),
                     [name](const SdyMesh::Axis& axis) { return axis.name == name; });
}

// Ways [from, to) of an axis, as products of sizes: "x":(2)4 is [2, 8).
bool Overlap(const SdyMesh& mesh, const SdyAxisRef& a, const SdyAxisRef& b) {
  if (a.name != b.name) return false;
  auto range = [&mesh](const SdyAxisRef& axis) {
    const int64_t pre = axis.sub_axis ? axis.sub_axis->first : 1;
    return std::pair<int64_t, int64_t>(pre, pre * SizeOf(mesh, axis));
  };
  const auto [a_from, a_to] = range(a);
  const auto [b_from, b_to] = range(b);
  return a_from < b_to && b_from < a_to;
}

const SdyMesh* MeshOf(const Module& module, const SdySharding& sharding) {
  return sharding.mesh ? &*sharding.mesh : module.FindMesh(sharding.mesh_name);
}

const SdyPerValue* PerValue(Check& c, std::string_view name, const std::vector<Value*>& values) {
  const Attribute* attribute = c.op().Find(name);
  const auto* list = attribute == nullptr ? nullptr : attribute->get_if<SdyPerValue>();
  if (!c.Require(list != nullptr && list->shardings.size() == values.size(),
                 absl::StrCat(std::string(name), " is missing or of the wrong length"))) {
    return nullptr;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    VerifySharding(c, list->shardings[i], values[i]->type);
  }
  return c.ok() ? list : nullptr;
}

// The body sees the part of a value that one device has of the manual axes.
void VerifyLocal(Check& c, const SdySharding& sharding, const std::set<std::string>& manual,
                 const Type& global, const Type& local) {
  const SdyMesh* mesh = MeshOf(c.module(), sharding);
  if (mesh == nullptr || mesh->axes.empty() || !global.is_tensor()) {
    c.Require(SameType(global, local), "a value in its body has another type");
    return;
  }
  if (!c.Require(
          local.is_tensor() && local.rank() == global.rank() && local.element == global.element,
          "a value in its body has another type")) {
    return;
  }
  for (int d = 0; d < global.rank(); ++d) {
    Wide ways = 1;
    for (const SdyAxisRef& axis : sharding.dims[d].axes) {
      if (manual.contains(axis.name)) ways *= SizeOf(*mesh, axis);
    }
    c.Require(global.dim(d) == kDynamic || local.dim(d) == kDynamic ||
                  global.dim(d) == local.dim(d) * ways,
              "a value in its body is not the part that its manual axes give");
  }
}

void VerifyManual(Check& c) {
  if (!c.Counts(-1, -1, 1)) return;
  const SdyPerValue* in = PerValue(c, "in_shardings", c.op().operands);
  const SdyPerValue* out = in == nullptr ? nullptr : PerValue(c, "out_shardings", c.op().results);
  const Attribute* attribute = c.op().Find("manual_axes");
  const auto* axes = attribute == nullptr ? nullptr : attribute->get_if<SdyManualAxes>();
  if (in == nullptr || out == nullptr || !c.Require(axes != nullptr, "it has no manual_axes")) {
    return;
  }
  const std::set<std::string> manual(axes->axes.begin(), axes->axes.end());
  for (const SdyPerValue* values : {in, out}) {
    for (const SdySharding& sharding : values->shardings) {
      for (const std::string& name : manual) {
        if (const SdyMesh* mesh = MeshOf(c.module(), sharding); !HasAxis(*mesh, name)) {
          c.Fail(absl::StrCat("its manual axis \"", name, "\" is none of its mesh"));
          return;
        }
      }
    }
  }
  const Region& body = *c.op().regions[0];
  const Op* end = body.terminator();
  if (!c.Require(body.arguments.size() == c.num_in() && end != nullptr &&
                     end->operands.size() == c.num_out(),
                 "its body has other numbers of arguments or results")) {
    return;
  }
  for (size_t i = 0; i < c.num_in(); ++i) {
    VerifyLocal(c, in->shardings[i], manual, c.in(i), body.arguments[i]->type);
  }
  for (size_t i = 0; i < c.num_out(); ++i) {
    VerifyLocal(c, out->shardings[i], manual, c.out(i), end->operand(static_cast<int>(i))->type);
  }
}

void VerifyNamed(Check& c) {
  if (!c.Counts(-1, -1, 1)) return;
  if (c.op().Find("in_shardings") != nullptr) PerValue(c, "in_shardings", c.op().operands);
  if (c.op().Find("out_shardings") != nullptr) PerValue(c, "out_shardings", c.op().results);
  c.Signature(*c.op().regions[0], TypesOf(c.op().operands), TypesOf(c.op().results));
}

// One operand, a result like it, a sharding under `name`.
void VerifyResharding(Check& c, std::string_view name, bool required) {
  if (!c.Counts(1)) return;
  c.SameAsOperand(0, 0);
  const Attribute* attribute = c.op().Find(name);
  const auto* sharding = attribute == nullptr ? nullptr : attribute->get_if<SdySharding>();
  if (sharding != nullptr) {
    VerifySharding(c, *sharding, c.out());
  } else {
    c.Require(!required, "it has no sharding");
  }
}

}  // namespace

void VerifySharding(Check& c, const SdySharding& sharding, const Type& type) {
  const std::string fault = ShardingFault(c.module(), sharding, type);
  if (!fault.empty()) c.Fail(absl::StrCat("its ", type.ToString(), ": ", fault));
}

std::string MeshFault(const SdyMesh& mesh) {
  std::set<std::string> names;
  int64_t devices = 1;
  for (const SdyMesh::Axis& axis : mesh.axes) {
    if (axis.size < 1 || axis.size > kMaxDevices / devices) {
      return absl::StrCat("the size of the axis \"", axis.name, "\" is out of range");
    }
    devices *= axis.size;
    if (!names.insert(axis.name).second) {
      return absl::StrCat("the axis \"", axis.name, "\" is there twice");
    }
  }
  if (mesh.device_ids.empty()) return "";
  if (mesh.axes.empty()) {
    return mesh.device_ids.size() == 1 && mesh.device_ids[0] >= 0
               ? ""
               : "a mesh without axes is one device";
  }
  std::vector<int64_t> ids = mesh.device_ids;
  std::sort(ids.begin(), ids.end());
  bool permutes = static_cast<int64_t>(ids.size()) == devices;
  for (int64_t i = 0; permutes && i < devices; ++i) permutes = ids[i] == i;
  return permutes ? "" : "its device_ids are no permutation of its devices";
}

std::string ShardingFault(const Module& module, const SdySharding& sharding, const Type& type) {
  const SdyMesh* mesh = MeshOf(module, sharding);
  if (mesh == nullptr) {
    return absl::StrCat("a sharding names the mesh @", sharding.mesh_name, ", which is missing");
  }
  if (sharding.mesh) {
    if (std::string fault = MeshFault(*mesh); !fault.empty()) return fault;
  }
  if (mesh->axes.empty()) return "";  // one device, or a mesh yet to be found: nothing is split
  const size_t rank = type.is_tensor() ? type.dims.size() : 0;
  if (sharding.dims.size() != rank) {
    return absl::StrCat("a sharding has ", sharding.dims.size(), " dimensions, its value ", rank);
  }
  std::vector<const SdyAxisRef*> used;
  std::string fault;
  auto use = [&](const SdyAxisRef& axis) {
    if (!HasAxis(*mesh, axis.name)) {
      fault = absl::StrCat("a sharding names the axis ", NameOfAxis(axis),
                           ", which its mesh lacks: that is ", NameOfAxes(*mesh));
    } else if (SizeOf(*mesh, axis) == 0) {
      const auto [before, size] = *axis.sub_axis;
      fault = absl::StrCat("a sharding names the sub-axis ", NameOfAxis(axis), ", but ", before,
                           " times ", size, " does not divide the axis: its mesh is ",
                           NameOfAxes(*mesh));
    }
    for (const SdyAxisRef* other : used) {
      if (fault.empty() && Overlap(*mesh, axis, *other)) {
        fault = absl::StrCat("a sharding uses the axis \"", axis.name, "\" twice");
      }
    }
    used.push_back(&axis);
  };
  // More references than an honest mesh has parts would only cost time.
  size_t count = sharding.replicated.size() + sharding.unreduced.size();
  for (const SdyDimSharding& dim : sharding.dims) count += dim.axes.size();
  if (count > 64) return "a sharding names too many axes";
  for (const SdyDimSharding& dim : sharding.dims) {
    if (dim.axes.empty() && dim.closed && dim.priority)
      return "a sharding has a priority for a dimension that is closed and not split";
    std::for_each(dim.axes.begin(), dim.axes.end(), use);
  }
  std::for_each(sharding.replicated.begin(), sharding.replicated.end(), use);
  std::for_each(sharding.unreduced.begin(), sharding.unreduced.end(), use);
  return fault;
}

void VerifyShardy(Check& c) {
  switch (c.op().kind) {
    case OpKind::kSdyManualComputation:
      return VerifyManual(c);
    case OpKind::kSdyNamedComputation:
      return VerifyNamed(c);
    case OpKind::kSdyShardingConstraint:
    case OpKind::kSdyReshard:
      return VerifyResharding(c, "sharding", /*required=*/true);
    case OpKind::kSdyDataFlowEdge:
      return VerifyResharding(c, "sharding", /*required=*/false);
    case OpKind::kSdyAllGather:
    case OpKind::kSdyAllReduce:
    case OpKind::kSdyAllSlice:
    case OpKind::kSdyAllToAll:
    case OpKind::kSdyCollectivePermute:
    case OpKind::kSdyReduceScatter:
    case OpKind::kSdyReplicatedToUnreduced:
    case OpKind::kSdyShardedToUnreduced:
      return VerifyResharding(c, "out_sharding", /*required=*/true);
    case OpKind::kSdyPropagationBarrier:
      if (c.Counts(1)) c.SameAsOperand(0, 0);
      return;
    case OpKind::kSdyShardingGroup:
      c.Counts(1, 0);
      return;
    case OpKind::kSdyConstant:
      c.Counts(0);
      return;
    default:
      return;
  }
}

}  // namespace shardway::ir::verify
