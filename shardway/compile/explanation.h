// Why a program is partitioned as it is, for people: who split each value, and what each collective
// is there for. As JSON, which the Python package reads (python/shardway/explanation.py):
//
//   program     {name, devices, replicas, mesh: [{name, size}], operators: [operator],
//                collectives: [collective]}
//   operator    {operator, name, depth, where, values: [value]}     in the program's order, depth:
//               how many loops and branches are around; "argument" and "result" stand for the
//               program's own
//   value       {type, shard, sharding, reasons: [reason]}          "sharding": "[{x}, {}]"
//   reason      {axes, dimension, annotation: bool, operator, where, origin}      operator: through
//               which it came ("sharding_group" for such); origin: the annotation at the other end
//   collective  {site, kind, call, axes, bytes, times: number|null, cause, where}
//               axes: over which its groups are, "" for other groups; bytes: sent by a device in
//               one call; times: in one run, null where a loop does not say
//   where       {file, line, column, name}                          the user's line
#pragma once

#include <string>
#include <vector>

#include "shardway/spmd/decisions.h"
#include "shardway/spmd/partitioner.h"
#include "shardway/spmd/program.h"

namespace shardway::compile {

// `device.causes` must refer to `program`; sites are those of `device.collectives`.
std::string Explain(const spmd::Program& program, const std::vector<spmd::Sharding>& shardings,
                    const spmd::Decisions& decisions, const spmd::PerDevice& device);

// The program's text with every value's sharding on it, in Shardy's notation.
std::string WriteWithShardings(const spmd::Program& program,
                               const std::vector<spmd::Sharding>& shardings);

}  // namespace shardway::compile
