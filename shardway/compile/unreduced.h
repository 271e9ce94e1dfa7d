// Values that enter or leave a manual region *unreduced* over some of its axes: the value is the
// sum of what the devices of those axes hold. Outside of regions we always hold the whole sum, so
// at the way in one device of the axes gets the value and the others zeros, and at the way out the
// parts are summed (which the partitioner puts off as long as it pays).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/ir/builder.h"
#include "shardway/ir/sdy.h"

namespace shardway::compile {

// The axes of `sharding.unreduced` that are among `manual`. UNIMPLEMENTED for another reduction
// than a sum.
absl::StatusOr<std::vector<ir::SdyAxisRef>> ManualUnreduced(const ir::SdySharding& sharding,
                                                            const std::vector<std::string>& manual);

// How many parts make the sum: the product of the axes' sizes on the sharding's mesh.
int64_t NumParts(const ir::Module& module, const ir::SdySharding& sharding,
                 const std::vector<ir::SdyAxisRef>& axes);

// The sharding of a vector with one element for each part.
ir::SdySharding OverParts(const ir::SdySharding& sharding, const std::vector<ir::SdyAxisRef>& axes);
// That of the parts in one array: `sharding` with a dimension before its own.
ir::SdySharding WithParts(const ir::SdySharding& sharding, const std::vector<ir::SdyAxisRef>& axes);

// pred[parts]: true for the first.
ir::Value* FirstOf(ir::Builder& b, int64_t parts);
// `value` where the device's element `first` (pred[1]) is true, else zeros.
ir::Value* OrZeros(ir::Builder& b, ir::Value* value, ir::Value* first);
// The sum over the leading dimension.
ir::Value* SumOfParts(ir::Builder& b, ir::Value* parts);

}  // namespace shardway::compile
