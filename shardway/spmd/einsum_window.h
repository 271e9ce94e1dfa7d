// What a windowed einsum is made from (windowed_einsum.h): a collective and the dot_generals right
// behind or right before it, with nothing between but what can be done tile by tile.
//
//   all_gather ─ slice, select, convert, transpose ─► dot_general     (one or several)
//   dot_general ─ pad, convert, transpose ─► reduce_scatter
//
// In a per-device program: shapes are local. Nothing is changed here.
#pragma once

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardway/spmd/emitter.h"

namespace shardway::spmd {

// The operators that use each value, in the order of the program; an operator stands there once for
// each operand.
using Users = absl::flat_hash_map<const ir::Value*, std::vector<ir::Op*>>;
Users UsersOf(const ir::Region& region);  // in all regions inside, too

// An operator between collective and dot_general; `dim` is the dimension cut into tiles, of its
// operand.
struct TileStep {
  const ir::Op* op;
  int dim;
};

// Where the loop of the computation that is cut into tiles stands in the dot_general: -1 where not.
struct TiledLoop {
  int operand[2] = {-1, -1};  // dimension of lhs and rhs
  int result = -1;
  bool contracting() const { return result < 0; }
};

struct DotOfGather {
  ir::Op* dot;
  int side;                     // the operand that is gathered
  std::vector<TileStep> steps;  // from the gathered value to the operand
  TiledLoop loop;
};
struct GatherWindow {
  ir::Op* gather;
  int dim;       // gathered
  int64_t size;  // that the dots see: tiles may reach beyond
  AxisList axes;
  std::vector<DotOfGather> dots;  // in the order of the program
};
struct ScatterWindow {
  ir::Op* scatter;
  int dim;       // of its operand
  int64_t size;  // of the dot's result, before it is padded
  AxisList axes;
  ir::Op* dot;
  std::vector<TileStep> steps;  // from the dot's result to the operand
  TiledLoop loop;
};

// nullopt where some use of the gathered value is not a dot_general of the same region, or one that
// contracts the gathered dimension may be computed alike by several devices of the ring: they
// would sum in another order each.
std::optional<GatherWindow> FindGatherWindow(ir::Op* gather, const collective::Spec& spec,
                                             const Users& users, const Emitter& e);
// nullopt where the scattered value is not a dot_general's alone, or not summed.
std::optional<ScatterWindow> FindScatterWindow(ir::Op* scatter, const collective::Spec& spec,
                                               const Users& users, const Mesh& mesh);

}  // namespace shardway::spmd
