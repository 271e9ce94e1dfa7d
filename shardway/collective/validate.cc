// The rules that a specification must keep, whoever wrote it.
#include <algorithm>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"

namespace shardway::collective {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 42;  // times kMaxDevices still fits

template <typename... Args>
absl::Status Bad(const Spec& spec, const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat("collective at site ", spec.site, " (", KindName(spec.kind), "): ", args...));
}

absl::Status CheckShape(const Spec& spec, const Shaped& shape) {
  const int element = static_cast<int>(shape.element);
  if (element <= 0 || element >= kNumElementTypes) {
    return Bad(spec, "unknown element type ", element);
  }
  int64_t bytes = ElementBytes(shape.element);
  for (int64_t dim : shape.dims) {
    if (dim < 0) return Bad(spec, "negative dimension in ", shape.ToString());
    if (dim != 0 && bytes > kMaxBytes / dim) {
      return Bad(spec, shape.ToString(), " is larger than any device");
    }
    if (dim != 0) bytes *= dim;
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const Spec& spec) {
  const Groups& groups = spec.groups;
  int64_t devices = 1;
  for (int64_t size : groups.mesh) {
    if (size < 1 || devices > kMaxDevices / size) {
      return Bad(spec, "mesh [", size, "] is empty or has more than ", kMaxDevices, " devices");
    }
    devices *= size;
  }
  std::set<int> axes;
  for (int axis : groups.axes) {
    if (axis < 0 || axis >= static_cast<int>(groups.mesh.size())) {
      return Bad(spec, "axis ", axis, " is outside the mesh of ", groups.mesh.size(), " axes");
    }
    if (!axes.insert(axis).second) return Bad(spec, "axis ", axis, " is listed twice");
  }
  if (groups.lists.empty()) return absl::OkStatus();

  if (!groups.axes.empty()) return Bad(spec, "groups are given both as axes and as lists");
  const bool sizes_may_differ =
      spec.kind == Kind::kAllReduce || spec.kind == Kind::kCollectivePermute;
  std::vector<bool> seen(devices);
  for (const std::vector<int64_t>& list : groups.lists) {
    if (list.empty()) return Bad(spec, "a group is empty");
    if (!sizes_may_differ && list.size() != groups.lists.front().size()) {
      return Bad(spec, "groups of ", groups.lists.front().size(), " and of ", list.size(),
                 " devices; all must have one size");
    }
    for (int64_t device : list) {
      if (device < 0 || device >= devices) {
        return Bad(spec, "device ", device, " is outside the mesh of ", devices, " devices");
      }
      if (seen[device]) return Bad(spec, "device ", device, " is in two groups");
      seen[device] = true;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReduction(const Spec& spec) {
  const bool reduces = spec.kind == Kind::kAllReduce || spec.kind == Kind::kReduceScatter;
  if (reduces != (spec.reduction != Reduction::kNone)) {
    return Bad(spec, "reduction '", ReductionName(spec.reduction), "' does not fit the kind");
  }
  const bool bitwise = spec.reduction == Reduction::kAnd || spec.reduction == Reduction::kOr ||
                       spec.reduction == Reduction::kXor;
  if (!bitwise) return absl::OkStatus();
  for (const Shaped& operand : spec.operands) {
    if (operand.element != ElementType::kI1 && !IsInteger(operand.element)) {
      return Bad(spec, "'", ReductionName(spec.reduction), "' of ", operand.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDimension(const Spec& spec, const Shaped& shape, int64_t dim) {
  if (dim >= 0 && dim < static_cast<int64_t>(shape.dims.size())) return absl::OkStatus();
  return Bad(spec, "dimension ", dim, " is outside ", shape.ToString());
}

// What results[i] must look like, given operands[i].
absl::StatusOr<Shaped> ExpectedResult(const Spec& spec, const Shaped& operand) {
  const int64_t n = spec.groups.group_size();
  Shaped result = operand;
  switch (spec.kind) {
    case Kind::kAllGather:
      SHARDWAY_RETURN_IF_ERROR(CheckDimension(spec, operand, spec.dim0));
      result.dims[spec.dim0] *= n;
      break;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      SHARDWAY_RETURN_IF_ERROR(CheckDimension(spec, operand, spec.dim0));
      if (operand.dims[spec.dim0] % n != 0) {
        return Bad(spec, "dimension ", spec.dim0, " of ", operand.ToString(),
                   " is not divisible by the group's ", n, " devices");
      }
      result.dims[spec.dim0] /= n;
      if (spec.kind == Kind::kReduceScatter) break;
      SHARDWAY_RETURN_IF_ERROR(CheckDimension(spec, operand, spec.dim1));
      result.dims[spec.dim1] *= n;
      break;
    case Kind::kAllReduce:
    case Kind::kCollectivePermute:
    case Kind::kCollectiveBroadcast:
    case Kind::kRaggedAllToAll:
      break;
  }
  return result;
}

absl::Status CheckRagged(const Spec& spec) {
  if (spec.operands.size() != 6 || spec.results.size() != 1) {
    return Bad(spec, spec.operands.size(), " operands and ", spec.results.size(),
               " results, not 6 and 1");
  }
  const Shaped& input = spec.operands[0];
  const Shaped& output = spec.operands[1];
  if (spec.results[0] != output) {
    return Bad(spec, "result ", spec.results[0].ToString(), " differs from ", output.ToString());
  }
  if (input.element != output.element || input.dims.empty() || output.dims.empty() ||
      !std::equal(input.dims.begin() + 1, input.dims.end(), output.dims.begin() + 1,
                  output.dims.end())) {
    return Bad(spec, "rows of ", input.ToString(), " do not fit into ", output.ToString());
  }
  for (int i = 2; i < 6; ++i) {
    const Shaped& index = spec.operands[i];
    if (!IsInteger(index.element) || ElementBits(index.element) < 8 || index.dims.size() != 1 ||
        index != spec.operands[2] || index.dims[0] % spec.groups.group_size() != 0) {
      return Bad(spec, "offsets and sizes ", index.ToString(), " must be one shape: integers, a ",
                 "multiple of the group's ", spec.groups.group_size(), " devices");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPairs(const Spec& spec) {
  if (spec.kind != Kind::kCollectivePermute) {
    return spec.pairs.empty() ? absl::OkStatus() : Bad(spec, "only a permute has pairs");
  }
  const int64_t members = spec.groups.group_size();
  std::vector<bool> sends(members), receives(members);
  for (auto [source, target] : spec.pairs) {
    if (source < 0 || source >= members || target < 0 || target >= members) {
      return Bad(spec, "pair ", source, "→", target, " is outside a group of ", members,
                 " members");
    }
    if (sends[source]) return Bad(spec, "member ", source, " sends twice");
    if (receives[target]) return Bad(spec, "member ", target, " receives twice");
    sends[source] = receives[target] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Spec& spec) {
  if (static_cast<int>(spec.kind) > static_cast<int>(Kind::kRaggedAllToAll)) {
    return Bad(spec, "unknown kind ", static_cast<int>(spec.kind));
  }
  if (static_cast<int>(spec.reduction) > static_cast<int>(Reduction::kXor)) {
    return Bad(spec, "unknown reduction ", static_cast<int>(spec.reduction));
  }
  if (spec.site < 0) return Bad(spec, "the site is negative");
  if (!(spec.work_after_us >= 0)) return Bad(spec, "work_after_us is ", spec.work_after_us);
  SHARDWAY_RETURN_IF_ERROR(CheckGroups(spec));
  for (const Shaped& shape : spec.operands) SHARDWAY_RETURN_IF_ERROR(CheckShape(spec, shape));
  for (const Shaped& shape : spec.results) SHARDWAY_RETURN_IF_ERROR(CheckShape(spec, shape));
  SHARDWAY_RETURN_IF_ERROR(CheckReduction(spec));
  SHARDWAY_RETURN_IF_ERROR(CheckPairs(spec));
  if (spec.kind == Kind::kRaggedAllToAll) return CheckRagged(spec);

  if (spec.operands.empty() || spec.operands.size() != spec.results.size()) {
    return Bad(spec, spec.operands.size(), " operands and ", spec.results.size(), " results");
  }
  for (size_t i = 0; i < spec.operands.size(); ++i) {
    SHARDWAY_ASSIGN_OR_RETURN(Shaped expected, ExpectedResult(spec, spec.operands[i]));
    if (spec.results[i] != expected) {
      return Bad(spec, "result ", i, " is ", spec.results[i].ToString(), ", should be ",
                 expected.ToString());
    }
  }
  return absl::OkStatus();
}

}  // namespace shardway::collective
