// Calls back into the user's process: custom calls @shardway.callback {callback = id, device = d}.
//
// With `device`, the call stands for the whole program and logical device d of each replica makes
// it, so that a user's function runs once however many devices there are (on_one_device.h).
// Without it (inside shard_map) every device makes the call. The worker's handler takes `callback`
// alone.
#include "shardway/spmd/on_one_device.h"
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

}  // namespace

LocalResults EmitHostCallback(LocalOp& local) {
  ir::AttrDict attributes = local.op.attributes;
  const int64_t device = TakeDevice(attributes);
  const int64_t n = local.mesh().num_devices();
  if (n == 1 || device < 0 || device >= n) {
    return EmitWith(local, std::move(attributes));
  }
  return EmitOnDevice(local, device, std::move(attributes));
}

}  // namespace shardway::spmd
