// infeed, outfeed, send, recv: transfers with the host while the program runs.
//
// Each device does its own. A result of infeed or recv that the user has annotated
// comes in tiles: a device is fed its own, padding included; without an annotation each is fed the
// whole, whatever its users would like, since the host can't know that. Operands of outfeed and
// send go out whole, from every device; in a manual region they are what the device has. What the
// user has put on one device (kOnDevice) that device does alone, and sends the others its results.
//
// Only the plugin's own runtime can serve them: `native`. On CPU workers nothing does, and JAX
// itself uses callbacks instead.
#include "shardway/spmd/host_transfer.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/spmd/on_one_device.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// The device that does it alone.
std::optional<int64_t> OneDevice(const ir::Op& op) {
  if (op.Find(kOnDevice) == nullptr) return std::nullopt;
  return op.Int(kOnDevice);
}

bool IsAnnotated(const ir::Op& op) {
  const ir::Attribute* a = op.Find("sdy.sharding");
  const bool sdy = a != nullptr && a->get_if<ir::SdyPerValue>() != nullptr;
  return sdy || !op.String("mhlo.sharding").empty();
}

}  // namespace

OpRule HostTransferRule(const ir::Op& op) {
  OpRule rule = ReplicatedRule(op);
  if (!IsAnnotated(op) || OneDevice(op)) return rule;
  for (size_t i = 0; i < op.results.size(); ++i) {
    rule.results[i] = rule.NewTensor(op.results[i]->type);
  }
  return rule;
}

LocalResults EmitHostTransfer(LocalOp& local) {
  const auto refuse = [&](const char* why) {
    return absl::UnimplementedError(absl::StrCat(std::string(ir::OpKindName(local.op.kind)), " at ",
                                                 local.op.location->ToString(), ": ", why));
  };
  if (local.e.backend() != Backend::kNative) {
    return refuse(
        "no transfers with the host inside a program on CPU workers; use "
        "jax.experimental.io_callback or pass the data as an argument");
  }
  if (const std::optional<int64_t> device = OneDevice(local.op)) {
    if (*device < 0 || *device >= local.mesh().num_devices()) {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(ir::OpKindName(local.op.kind)), " at ", local.op.location->ToString(),
          " is on device ", *device, " of ", local.mesh().num_devices()));
    }
    if (local.e.num_replicas() > 1) return refuse("on one device, of a program with replicas");
    ir::AttrDict attributes = local.op.attributes;
    ir::Erase(attributes, std::string(kOnDevice));
    return EmitOnDevice(local, *device, std::move(attributes));
  }
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
