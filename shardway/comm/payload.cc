#include "shardway/comm/payload.h"

namespace shardway::comm {

using collective::Kind;
using collective::Shaped;

bool IsTwoRound(const SitePlan& site) {
  return site.spec.kind == Kind::kAllReduce && site.operand_bytes >= kTwoRoundBytes;
}

bool IsSent(const SitePlan& site, const GroupPlan& group, int member, int i) {
  switch (site.spec.kind) {
    case Kind::kCollectivePermute: {
      // To another host?
      for (const Member& target : group.members) {
        if (site.source_of_logical[target.logical] == group.members[member].logical) {
          return target.host != group.members[member].host;
        }
      }
      return false;
    }
    case Kind::kCollectiveBroadcast:
      return member == 0;
    case Kind::kRaggedAllToAll:
      return i == 0 || (i >= 2 && i <= 4);
    default:
      return true;
  }
}

int64_t PayloadBytes(const SitePlan& site, const GroupPlan& group,
                     const std::vector<int>& members) {
  int64_t bytes = 0;
  for (int member : members) {
    for (size_t i = 0; i < site.spec.operands.size(); ++i) {
      if (IsSent(site, group, member, static_cast<int>(i))) {
        bytes += AlignPayload(site.spec.operands[i].num_bytes());
      }
    }
  }
  return bytes;
}

Share ShareOf(int64_t elements, int index, int hosts) {
  const int64_t first = elements / hosts * index + elements % hosts * index / hosts;
  const int64_t end = elements / hosts * (index + 1) + elements % hosts * (index + 1) / hosts;
  return {first, end - first};
}

int64_t ShareBytes(const SitePlan& site, int index, int hosts) {
  int64_t bytes = 0;
  for (const Shaped& operand : site.spec.operands) {
    bytes += AlignPayload(ShareOf(operand.num_elements(), index, hosts).count *
                          ElementBytes(operand.element));
  }
  return bytes;
}

}  // namespace shardway::comm
