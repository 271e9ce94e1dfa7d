// Tells JAX the shardings it asked for with jax.debug.inspect_array_sharding.
#pragma once

#include <string_view>
#include <vector>

#include "shardway/client/session.h"

namespace shardway::pjrt_plugin {

// Calls back into JAX, on this thread, for each inspection of a program that was just compiled from
// `artifact`. Callbacks are addresses in this process that JAX wrote into the artifact: one that is
// not there is left alone. What a callback raises is logged, as XLA does.
void TellInspections(std::string_view artifact, const std::vector<client::Inspection>& inspections);

}  // namespace shardway::pjrt_plugin
