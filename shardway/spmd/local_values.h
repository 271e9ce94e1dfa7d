// What the values of a program have become in the per-device program that is being written: the
// shard of each, how it is laid out, and the other layouts that it was resharded to.
//
// Scopes follow the regions being written: what was made inside a region is not used outside of it.
// One writer, one thread.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardway/ir/clone.h"
#include "shardway/spmd/emitter.h"
#include "shardway/spmd/loop_hoisting.h"
#include "shardway/spmd/propagation.h"
#include "shardway/spmd/uses.h"

namespace shardway::spmd {

struct Local {
  ir::Value* shard = nullptr;
  Sharding sharding;
  AxisSet pending = 0;  // atoms over which the shards are still to be summed (deferral.h)
};

class LocalValues {
 public:
  // All of these outlive it. `shardings` by Value::id.
  LocalValues(const Program& program, const Rules& rules, const std::vector<Sharding>& shardings,
              Emitter& emitter);

  const Program& program() const { return program_; }
  const Mesh& mesh() const { return program_.mesh; }
  const OpRule& RuleOf(const ir::Op& op) const { return rules_.Of(&op); }
  Emitter& emitter() { return emitter_; }
  LoopHoisting& hoisting() { return hoisting_; }
  const Uses& uses() const { return uses_; }

  // The sharding that propagation decided for `v`, and the type of its shard then.
  const Sharding& Decided(const ir::Value* v) const { return shardings_[v->id]; }
  // The sharding that `v` is made in: the decided one or, where nothing but a sharding_constraint
  // uses it (behind barriers too) and the user has said nothing of the value itself, what that
  // wants.
  const Sharding& Wanted(const ir::Value* v) const {
    const ir::Op* by = SettledBy(v);
    return Decided(by == nullptr ? v : by->result());
  }
  // That constraint, or null.
  const ir::Op* SettledBy(const ir::Value* v) const;
  // Whether `v`, computed under `sharding`, is left so for its users to take as they need: where
  // nobody has said how it is to be, and only gathers lead to what was decided.
  bool MayStay(const ir::Value* v, const Sharding& sharding) const;
  ir::Type TypeOf(const ir::Value* v) const {
    return sharding::LocalType(v->type, Decided(v), mesh());
  }

  Local& operator[](const ir::Value* v) { return locals_[v->id]; }
  const Local& operator[](const ir::Value* v) const { return locals_[v->id]; }
  void Bind(const ir::Value* v, ir::Value* shard, Sharding sharding) {
    locals_[v->id] = {shard, std::move(sharding)};
  }

  // The shard of `v` under `want` for operand `index` of `user`, resharded at most once in each
  // scope: a whole value, parts are summed. INTERNAL when `v` was not bound.
  absl::StatusOr<ir::Value*> Get(const ir::Value* v, const Sharding& want, const ir::Op& user,
                                 size_t index);

  // How `v`, result `index` of a barrier, passes it: as it came, where nothing but the barrier
  // takes that and it may stay so; else as it is wanted.
  const Sharding& Passes(const ir::Op& barrier, size_t index) const;

  // What Get would cost (costs.h).
  double CostOf(const ir::Value* v, const Sharding& want) const;

  // Of a partial value the sum, as wanted. It counts as the work of the operator that made the
  // parts.
  ir::Value* Sum(const ir::Value* v, const Local& parts, const Sharding& want);

  // What is written from here on carries the location of `op`.
  void GoTo(const ir::Op& op) { emitter_.b().set_location(locations_.CloneLocation(op.location)); }

  // A region is being written from here to Leave.
  void Enter() { scopes_.emplace_back(); }
  void Leave() { scopes_.pop_back(); }
  size_t depth() const { return scopes_.size(); }

 private:
  // The result of a cheap source, or of an operator that has fewer bytes to move in its operand,
  // made as it is wanted.
  absl::StatusOr<ir::Value*> Make(const ir::Op& op, const Sharding& want);
  // Where `v` comes from under another sharding for the least: from itself or, since a constraint
  // changes nothing but the layout, from what constraints made it of. Not from larger shards: who
  // asks for a split has less in memory afterwards.
  struct Source {
    const ir::Value* v;
    double cost;
    bool make;  // by Make, not by a reshard
  };
  Source SourceOf(const ir::Value* v, const Sharding& want) const;
  // What Make would cost, where `v` is a cheap source or the operator grows its operand; infinite
  // for others.
  double MakeCost(const ir::Value* v, const Sharding& want) const;
  ir::Value* Find(const ir::Value* v, const Sharding& want) const;

  const Program& program_;
  const Rules& rules_;
  const std::vector<Sharding>& shardings_;
  Emitter& emitter_;
  const Uses uses_;
  LoopHoisting hoisting_;
  ir::Cloner locations_;
  std::vector<Local> locals_;  // by Value::id
  std::vector<absl::flat_hash_map<std::pair<uint32_t, Sharding>, ir::Value*>> scopes_;
};

}  // namespace shardway::spmd
