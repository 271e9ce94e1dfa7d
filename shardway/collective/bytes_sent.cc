#include "shardway/collective/bytes_sent.h"

namespace shardway::collective {
namespace {

double TotalBytes(const std::vector<Shaped>& shapes) {
  double bytes = 0;
  for (const Shaped& shape : shapes) bytes += static_cast<double>(shape.num_bytes());
  return bytes;
}

}  // namespace

double BytesSent(const Spec& spec) {
  const auto n = static_cast<double>(spec.groups.group_size());
  const double others = n < 1 ? 0 : (n - 1) / n;
  switch (spec.kind) {
    case Kind::kAllReduce:
      return 2 * others * TotalBytes(spec.operands);
    case Kind::kAllGather:
      return others * TotalBytes(spec.results);
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return others * TotalBytes(spec.operands);
    case Kind::kRaggedAllToAll:
      return spec.operands.empty() ? 0 : others * static_cast<double>(spec.operands[0].num_bytes());
    case Kind::kCollectivePermute:
    case Kind::kCollectiveBroadcast:
      return TotalBytes(spec.operands);
  }
  return 0;
}

}  // namespace shardway::collective
