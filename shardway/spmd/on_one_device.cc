#include "shardway/spmd/on_one_device.h"

#include <utility>
#include <vector>

#include "shardway/base/status_macros.h"

namespace shardway::spmd {
namespace {

// Device `from` of each replica first, then the others.
collective::Groups GroupsFrom(Emitter& e, int64_t from) {
  const int64_t n = e.mesh().num_devices();
  std::vector<std::vector<int64_t>> lists;
  for (int64_t r = 0; r < e.num_replicas(); ++r) {
    std::vector<int64_t>& list = lists.emplace_back();
    list.push_back(r * n + from);
    for (int64_t d = 0; d < n; ++d) {
      if (d != from) list.push_back(r * n + d);
    }
  }
  return e.GroupsFromLists(std::move(lists));
}

}  // namespace

LocalResults EmitOnDevice(LocalOp& local, int64_t device, ir::AttrDict attributes) {
  Emitter& e = local.e;
  ir::Builder& b = e.b();
  ir::Value* here = e.PartitionId();
  ir::Value* is_here = b.Compare("EQ", here, b.SplatInt(here->type, device));
  ir::Op* branches = b.Create(ir::OpKind::kIf, {&is_here, 1}, local.result_types);
  ir::Region* outside = b.region();
  b.set_region(e.module()->AddRegion(branches));
  LocalResults done = EmitWith(local, std::move(attributes));
  if (done.ok()) b.Return(*done);
  b.set_region(e.module()->AddRegion(branches));
  std::vector<ir::Value*> nothing;
  for (const ir::Type& type : local.result_types) {
    nothing.push_back(type.is_token() ? b.Create(ir::OpKind::kCreateToken, {}, {&type, 1})->result()
                                      : b.SplatInt(type, 0));
  }
  b.Return(nothing);
  b.set_region(outside);
  if (!done.ok()) return done;

  collective::Spec broadcast;
  broadcast.kind = collective::Kind::kCollectiveBroadcast;
  broadcast.groups = GroupsFrom(e, device);
  std::vector<ir::Value*> results = branches->results;
  for (ir::Value*& v : results) {
    if (v->type.is_tensor()) v = e.Collective(broadcast, {&v, 1}, {&v->type, 1})[0];
  }
  return results;
}

}  // namespace shardway::spmd
