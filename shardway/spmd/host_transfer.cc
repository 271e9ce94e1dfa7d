// infeed, outfeed, send, recv: transfers with the host, or between devices, while the program runs.
//
// Each device does its own. A result of infeed or recv that the user has annotated (sdy.sharding)
// comes in tiles: a device is fed its own, padding included; without an annotation each is fed the
// whole, whatever its users would like, since the host can't know that. Operands of outfeed and
// send go out whole, from every device; in a manual region they are what the device has.
//
// Only the plugin's own runtime can serve them: `native`. On CPU workers nothing does, and JAX
// itself uses callbacks instead.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

// The annotations of the results; null: none.
const ir::SdyPerValue* AnnotationsOf(const ir::Op& op) {
  const ir::Attribute* a = op.Find("sdy.sharding");
  return a == nullptr ? nullptr : a->get_if<ir::SdyPerValue>();
}

}  // namespace

OpRule HostTransferRule(const ir::Op& op) {
  OpRule rule = ReplicatedRule(op);
  if (AnnotationsOf(op) == nullptr) return rule;
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
  if (const ir::SdyPerValue* all = AnnotationsOf(local.op)) {
    for (size_t i = 0; i < std::min(all->shardings.size(), local.op.results.size()); ++i) {
      const ir::Type& type = local.op.results[i]->type;
      if (type.is_tensor() && all->shardings[i].dims.size() != static_cast<size_t>(type.rank())) {
        return refuse("it is on one device; annotate its result over the whole mesh");
      }
    }
  }
  return EmitAsIs(local);
}

}  // namespace shardway::spmd
