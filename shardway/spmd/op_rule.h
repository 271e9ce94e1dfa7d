// What an operator is to the partitioner: how the dimensions of its operands and results
// correspond.
//
// Every dimension of every operand and result is a product of *factors*, major to minor; a factor
// that occurs in several tensors is the same loop of the computation. Propagation, partitioning and
// cost see operators only through their rules.
//
//   dot_general  [b,i,k] x [b,k,j] → [b,i,j]    b, i, j pass through; k is a reduction
//   reshape      [ab] → [a,b]                   a, b pass through
//   cumulative   [i,s] → [i,s]                  i passes through; s needs replication
//
// A factor's kind says what splitting it means:
//   kPassThrough   every part is computed alone
//   kReduction     every part gives a partial result, which are combined over the parts
//   kReplicated    cannot be split
// A *window* factor may be split when parts exchange edges (halo.h): an element of the result is
// made of neighbouring elements of the operand, so the dimensions correspond place by place, but
// may differ in size (the factor has the result's). Its room says what the exchange costs.
//
//   slice, pad, convolution  [s] → [s]          s is a window
//
// Where the operand is whole on every device there is nothing to exchange: see cut_whole.h.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "shardway/collective/spec.h"
#include "shardway/ir/module.h"
#include "shardway/spmd/program.h"

namespace shardway::spmd {

struct Factor {
  enum class Kind : uint8_t { kPassThrough, kReduction, kReplicated };
  int64_t size = 1;
  Kind kind = Kind::kPassThrough;
  bool window = false;
  // The major factor of several in a dimension, which may still be split where it does not divide:
  // the dimension is then split as a whole, and its room moves the borders of the tiles (reshape).
  bool border = false;
  // Of an operator that we do not know, whose sum cannot be told from its padding: may only be
  // split where all parts are full.
  bool even = false;
  // Of a window: its room can cut the parts out of an operand that every device holds whole.
  bool cuts = false;
  // In such an operand, in the window's place: that window (cut_whole.h).
  int cut_for = -1;
};

// Per dimension: its factors, major to minor. A dimension without factors is of size 1.
using TensorFactors = absl::InlinedVector<absl::InlinedVector<int, 1>, 4>;
using FactorAxes = std::vector<AxisList>;  // the atoms that split each factor

struct OpRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;
  std::vector<TensorFactors> results;
  // How partial results combine when a reduction factor is split; kNone: the room's own business.
  collective::Reduction combine = collective::Reduction::kNone;
  std::vector<int> blocked;  // factors that propagation does not carry from one tensor to another

  int AddFactor(int64_t size, Factor::Kind kind = Factor::Kind::kPassThrough) {
    factors.push_back({size, kind});
    return static_cast<int>(factors.size()) - 1;
  }
  int AddWindow(int64_t size, Factor::Kind kind = Factor::Kind::kPassThrough) {
    factors.push_back({size, kind, /*window=*/true});
    return static_cast<int>(factors.size()) - 1;
  }
  // The window that `factor`, the only one of an operand's dimension, stands for; itself for
  // others.
  int WindowOf(int factor) const {
    return factors[factor].cut_for < 0 ? factor : factors[factor].cut_for;
  }
  // Whether parts must exchange edges when the factors are split so.
  bool Exchanges(const FactorAxes& axes, const Mesh& mesh) const;
  bool Exchanges(int factor, const FactorAxes& axes, const Mesh& mesh) const;
  // A tensor all of whose dimensions are new factors of this kind.
  TensorFactors NewTensor(const ir::Type& type, Factor::Kind kind = Factor::Kind::kPassThrough);
};

// Nothing may be split: the rule of every operator that has none of its own.
OpRule ReplicatedRule(const ir::Op& op);
// All operands and results have one shape and every dimension passes through; scalars among them
// are replicated.
OpRule PointwiseRule(const ir::Op& op);

// The axes of each factor in a tensor of this sharding: given [ab] split over {x,y}, a of size |x|,
// b: a ↦ {x}, b ↦ {y}. Axes that do not fall on factors are left out; `exact` says whether there
// were none.
void ProjectFactors(const OpRule& rule, const TensorFactors& tensor, const Sharding& sharding,
                    const Mesh& mesh, FactorAxes& out, bool* exact = nullptr);
// The inverse: the sharding of a tensor whose factors are split so. A minor factor splits its
// dimension only when the major ones are split fully (otherwise its parts would be strided).
Sharding FromFactors(const OpRule& rule, const TensorFactors& tensor, const FactorAxes& axes,
                     const Mesh& mesh);

}  // namespace shardway::spmd
