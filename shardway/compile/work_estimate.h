// Rough counts of the work in a per-device program: for scheduling, and for how a collective
// continues (design decision 3).
#pragma once

#include <vector>

#include "shardway/collective/spec.h"
#include "shardway/ir/module.h"

namespace shardway::compile {

// Fills in `work_after_us` of every collective: the time until the next one (in a loop, the next
// may be the first of the next step) or the end. Returns the floating-point operations of the whole
// program, loops counted with their trip count where it is a constant.
double EstimateWork(const ir::Module& module, std::vector<collective::Spec>& collectives);

}  // namespace shardway::compile
