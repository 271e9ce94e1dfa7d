// Calls back into the user's process: custom calls @shardway.callback {callback = id, device = d}.
//
// With `device`, the call stands for the whole program and logical device d of each replica makes
// it, so that a user's function runs once however many devices there are:
//
//   %r = stablehlo.if %is_d { call } else { zeros }
//   collective_broadcast %r from d
//
// Without it (inside shard_map) every device makes the call. The worker's handler takes `callback`
// alone.
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// Takes `device` out of the call's configuration; -1 when it is not there.
int64_t TakeDevice(ir::AttrDict& attributes) {
  int64_t device = -1;
  for (const char* name : {"backend_config", "mhlo.backend_config"}) {
    const ir::Attribute* attribute = ir::Find(attributes, name);
    const auto* dict =
        attribute != nullptr ? attribute->get_if<std::shared_ptr<const ir::AttrDict>>() : nullptr;
    const ir::Attribute* entry = dict != nullptr ? ir::Find(**dict, "device") : nullptr;
    if (entry == nullptr) continue;
    if (const auto* number = entry->get_if<int64_t>()) device = *number;
    ir::AttrDict config = **dict;
    ir::Erase(config, "device");
    ir::Set(attributes, name, std::make_shared<const ir::AttrDict>(std::move(config)));
  }
  return device;
}

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

LocalResults EmitHostCallback(LocalOp& local) {
  ir::AttrDict attributes = local.op.attributes;
  const int64_t device = TakeDevice(attributes);
  const int64_t n = local.mesh().num_devices();
  if (n == 1 || device < 0 || device >= n) {
    return EmitWith(local, std::move(attributes));
  }

  Emitter& e = local.e;
  ir::Builder& b = e.b();
  const ir::Type ui32 = ir::Type::Scalar(ElementType::kUI32);
  ir::Value* is_caller = b.Compare("EQ", e.PartitionId(), b.SplatInt(ui32, device));
  ir::Op* branches = b.Create(ir::OpKind::kIf, {&is_caller, 1}, local.result_types);
  ir::Region* outside = b.region();
  b.set_region(e.module()->AddRegion(branches));
  LocalResults called = EmitWith(local, std::move(attributes));
  if (called.ok()) b.Return(*called);
  b.set_region(e.module()->AddRegion(branches));
  std::vector<ir::Value*> zeros;
  for (const ir::Type& type : local.result_types) zeros.push_back(b.Splat(type, 0));
  b.Return(zeros);
  b.set_region(outside);
  if (!called.ok()) return called;

  std::vector<ir::Value*> results;
  for (size_t i = 0; i < local.result_types.size(); ++i) {
    collective::Spec spec;
    spec.kind = collective::Kind::kCollectiveBroadcast;
    spec.groups = GroupsFrom(e, device);
    results.push_back(
        e.Collective(std::move(spec), {&branches->results[i], 1}, {&local.result_types[i], 1})[0]);
  }
  return results;
}

}  // namespace shardway::spmd
