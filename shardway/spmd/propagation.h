// Completion (GSPMD §3.5): from the annotations of a program to a sharding for every value.
//
// Every operator is a rule over factors (op_rule.h); values that must agree (the state of a loop,
// the results of branches, the two sides of a constraint, a sharding group) are rules too. An atom
// that splits a factor in one tensor is offered to the others; a tensor takes it when nothing
// forbids it: a closed dimension, a manual axis, an axis that it already uses. So the shardings of
// different dimensions merge. Operators come in levels (operator_priority.h), each to a fixed
// point; all of that once for each priority that annotations name, smaller ones first. Axes are
// only ever added, so it ends; the order is the program's, so it is deterministic.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/decisions.h"
#include "shardway/spmd/op_rule.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

// Whether its regions run programs (while, if, case), not reducers.
bool HasBodies(const ir::Op& op);

// The rule of every operator of a program that has one (control flow and returns have none).
class Rules {
 public:
  explicit Rules(const Program& program);
  const OpRule& Of(const ir::Op* op) const { return *rules_.find(op)->second; }

 private:
  void Add(const ir::Region& region, const Program& program);
  absl::flat_hash_map<const ir::Op*, std::unique_ptr<OpRule>> rules_;
};

// By Value::id. What is annotated has at least its annotation. `decisions`, where given, is filled
// with the reasons.
std::vector<Sharding> Propagate(const Program& program, const Rules& rules,
                                Decisions* decisions = nullptr);

}  // namespace shardway::spmd
