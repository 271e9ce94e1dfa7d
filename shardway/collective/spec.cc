#include "shardway/collective/spec.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace shardway::collective {

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kCollectivePermute:
      return "collective_permute";
    case Kind::kCollectiveBroadcast:
      return "collective_broadcast";
    case Kind::kRaggedAllToAll:
      return "ragged_all_to_all";
  }
  return "unknown";
}

const char* ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "none";
    case Reduction::kSum:
      return "sum";
    case Reduction::kProduct:
      return "product";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kAnd:
      return "and";
    case Reduction::kOr:
      return "or";
    case Reduction::kXor:
      return "xor";
  }
  return "unknown";
}

int64_t Shaped::num_elements() const {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

int64_t Shaped::num_bytes() const { return num_elements() * ElementBytes(element); }

std::string Shaped::ToString() const {
  return absl::StrCat(std::string(ElementTypeName(element)), "[", absl::StrJoin(dims, ","), "]");
}

namespace {

// Lists of groups and pairs may be long; messages show the first few.
constexpr size_t kShown = 8;

std::string GroupsToString(const Groups& groups) {
  if (groups.lists.empty()) {
    return absl::StrCat("axes [", absl::StrJoin(groups.axes, ","), "] of [",
                        absl::StrJoin(groups.mesh, ","), "]");
  }
  std::string text = "groups {";
  for (size_t i = 0; i < groups.lists.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "{", absl::StrJoin(groups.lists[i], ","), "}");
  }
  return absl::StrCat(text, groups.lists.size() > kShown ? ", …}" : "}");
}

// "shift 1": every member sends to the next but one, "rotate 1": in a ring; or the pairs.
std::string PairsToString(const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t members) {
  if (!pairs.empty()) {
    const int64_t step = pairs[0].second - pairs[0].first;
    const auto count = static_cast<int64_t>(pairs.size());
    bool shift = step != 0 && count == members - std::abs(step);
    bool ring = step != 0 && count == members;
    for (auto [source, target] : pairs) {
      shift = shift && target - source == step;
      ring = ring && (target - source - step) % members == 0;
    }
    if (shift) return absl::StrCat("shift ", step);
    if (ring) return absl::StrCat("rotate ", (step + members) % members);
  }
  std::string text = "{";
  for (size_t i = 0; i < pairs.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", pairs[i].first, "→", pairs[i].second);
  }
  return absl::StrCat(text, pairs.size() > kShown ? ", …}" : "}");
}

}  // namespace

std::string Spec::FieldName() const { return absl::StrReplaceAll(KindName(kind), {{"_", "-"}}); }

std::string Spec::ToString() const {
  std::string text(KindName(kind));
  if (reduction != Reduction::kNone) absl::StrAppend(&text, " ", ReductionName(reduction));
  for (size_t i = 0; i < operands.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", operands[i].ToString());
  }
  switch (kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
      absl::StrAppend(&text, " along dimension ", dim0);
      break;
    case Kind::kAllToAll:
      absl::StrAppend(&text, " split ", dim0, " concat ", dim1);
      break;
    case Kind::kCollectivePermute:
      absl::StrAppend(&text, " ", PairsToString(pairs, groups.group_size()));
      break;
    default:
      break;
  }
  return absl::StrCat(text, " over ", GroupsToString(groups));
}

}  // namespace shardway::collective
