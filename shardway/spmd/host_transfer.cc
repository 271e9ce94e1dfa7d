// infeed, outfeed, send, recv: transfers that the host would have to serve while the program runs.
// Nothing here does; JAX itself uses callbacks instead.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {

LocalResults EmitHostTransfer(LocalOp& local) {
  return absl::UnimplementedError(absl::StrCat(
      std::string(ir::OpKindName(local.op.kind)), " at ", local.op.location->ToString(),
      ": no transfers with the host inside a program; use jax.experimental.io_callback "
      "or pass the data as an argument"));
}

}  // namespace shardway::spmd
