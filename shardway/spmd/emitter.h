// Writes the per-device program: a builder that knows the mesh, where this device stands on it, and
// how the back end spells a collective (design decision 2):
//
//   kFfi     one partition; a device's place is a parameter, collectives are @shardway.collective
//   calls kNative  N partitions; partition_id, and StableHLO's own collectives with lists of
//   devices
//
// Both come from the same calls in the same order. One emitter, one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "shardway/collective/spec.h"
#include "shardway/ir/builder.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

enum class Backend { kFfi, kNative };

// Why a collective is there.
struct Cause {
  enum class Kind {
    kOperator,  // the operator itself needs it: a collective of the user's, a halo
    kOperand,   // operand `index` of the operator had another sharding than is computed with
    kResult,    // result `index` is wanted otherwise than it is computed
    kPartial,   // the parts of result `index` are combined
    kOrder,     // argument `index` (no operator) or result `index` lies on the devices in another
                // order
  };
  Kind kind = Kind::kOperator;
  const ir::Op* op = nullptr;  // of the program being partitioned
  int index = 0;
  Sharding from, to;  // of the value; empty for kOperator
  int ring = -1;      // the windowed einsum that this is a hop of (windowed_einsum.h)
};

// A collective in the program being written. Sites are numbered, and the operator gets what depends
// on its site, when the program is finished.
struct CollectiveCall {
  ir::Op* op;
  collective::Spec spec;
  Cause cause;
};

class Emitter {
 public:
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;

  // Appends to `body`, the body of the main function of `module`.
  Emitter(ir::Module* module, ir::Region* body, const Mesh* mesh, int64_t num_replicas,
          Backend backend);

  ir::Builder& b() { return builder_; }
  ir::Module* module() { return module_; }
  const Mesh& mesh() const { return *mesh_; }
  int64_t num_replicas() const { return num_replicas_; }
  Backend backend() const { return backend_; }

  // Where this device stands, as scalars that dominate the whole program: i32 row-major index over
  // `axes`, and the ui32 ids of StableHLO.
  ir::Value* Coordinate(const AxisList& axes);
  ir::Value* PartitionId();
  ir::Value* ReplicaId();

  // Collectives over mesh axes; `x` is a shard. Shapes are local.
  ir::Value* AllReduce(ir::Value* x, collective::Reduction reduction, const AxisList& axes);
  ir::Value* AllGather(ir::Value* x, int64_t dim, const AxisList& axes);
  ir::Value* ReduceScatter(ir::Value* x, collective::Reduction reduction, int64_t dim,
                           const AxisList& axes);
  ir::Value* AllToAll(ir::Value* x, int64_t split_dim, int64_t concat_dim, const AxisList& axes);
  // Pairs of places along `axes` (row-major as listed), source and target; everywhere else on the
  // mesh the same.
  ir::Value* Permute(ir::Value* x, const AxisList& axes, Pairs pairs);
  // Pairs of partitions; every replica does the same among its own.
  ir::Value* PermuteDevices(ir::Value* x, const Pairs& pairs);
  // Any collective: operands, results and location are filled in here.
  std::vector<ir::Value*> Collective(collective::Spec spec, absl::Span<ir::Value* const> operands,
                                     absl::Span<const ir::Type> results);

  // Groups over logical devices (replica-major) that differ only in these axes.
  collective::Groups GroupsOver(const AxisList& axes) const;
  // Arbitrary groups, as mesh axes when they are that.
  collective::Groups GroupsFromLists(std::vector<std::vector<int64_t>> lists) const;

  // Fills in `spec`, a permute: pairs of logical devices as pairs of places along the fewest axes.
  void SetPairs(collective::Spec& spec, Pairs pairs) const;

  // Collectives alike but for their operands, as one call; for kNative one each, since the plugin
  // has a combiner of its own. Results in the order of the operands.
  std::vector<ir::Value*> Together(const collective::Spec& like,
                                   absl::Span<ir::Value* const> operands,
                                   absl::Span<const ir::Type> results);

  std::vector<CollectiveCall>& calls() { return calls_; }
  // The axes along which no two devices compute the same in `op`, as far as was said; none by
  // default. Where the others compute it too, they must come to the same bits.
  AxisSet DistinctOver(const ir::Op& op) const {
    const auto it = distinct_.find(&op);
    return it == distinct_.end() ? 0 : it->second;
  }
  void SetDistinctOver(const ir::Op& op, AxisSet axes) { distinct_[&op] = axes; }

  // Branches (if, case) of which all devices take the same; others may diverge.
  bool TakenAlike(const ir::Op& branches) const { return taken_alike_.contains(&branches); }
  void SetTakenAlike(const ir::Op& branches) { taken_alike_.insert(&branches); }

  // What later collectives are there for.
  void set_cause(Cause cause) { cause_ = std::move(cause); }

  // Puts the prologue in its place, numbers the collectives in the order of the program and, for
  // kFfi, adds the parameter with this device's place if anything asked for it. Call once, when all
  // is emitted. Returns whether the parameter is there.
  bool Finish();
  // By site. After Finish.
  std::vector<collective::Spec> TakeSpecs() { return std::move(specs_); }
  std::vector<Cause> TakeCauses() { return std::move(causes_); }

 private:
  // XLA's own collectives know sums, products, minima, maxima, and logic of booleans; any other
  // reduction is made of a gather.
  bool HasReduction(collective::Reduction reduction, ElementType element) const;
  ir::Value* GatherAndReduce(ir::Value* x, collective::Reduction reduction, const AxisList& axes);

  // Of elements of less than a byte; nothing when there are none.
  std::vector<ir::Value*> CollectiveInCarriers(const collective::Spec& spec,
                                               absl::Span<ir::Value* const> operands,
                                               absl::Span<const ir::Type> results);

  ir::Value* Id(int which);
  ir::Op* EmitNative(const collective::Spec& spec, absl::Span<ir::Value* const> operands,
                     absl::Span<const ir::Type> results);
  ir::Op* EmitCall(absl::Span<ir::Value* const> operands, absl::Span<const ir::Type> results);
  const ir::Location* Named(const ir::Location* location, const std::string& what);
  void NumberSites();

  ir::Module* module_;
  ir::Region* body_;
  ir::Region* prologue_;
  const Mesh* mesh_;
  int64_t num_replicas_;
  Backend backend_;
  ir::Builder builder_;
  ir::Value* place_ = nullptr;  // tensor<2xi32>: replica, partition
  ir::Value* ids_[2] = {nullptr, nullptr};
  absl::flat_hash_map<AxisList, ir::Value*> coordinates_;
  absl::flat_hash_map<const ir::Op*, AxisSet> distinct_;
  absl::flat_hash_set<const ir::Op*> taken_alike_;
  std::vector<CollectiveCall> calls_;
  Cause cause_;
  std::vector<collective::Spec> specs_;
  std::vector<Cause> causes_;
};

// The scalar type of reducers, and a region computing `reduction` on it.
void BuildReducer(ir::Module* module, ir::Region* region, collective::Reduction reduction,
                  ElementType element);

}  // namespace shardway::spmd
