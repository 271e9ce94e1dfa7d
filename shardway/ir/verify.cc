#include "shardway/ir/verify.h"

namespace shardway::ir {

absl::Status Verify(const Module& module) {
  if (module.main() == nullptr) return absl::InvalidArgumentError("the module has no function @main");
  return absl::OkStatus();
}

}  // namespace shardway::ir
