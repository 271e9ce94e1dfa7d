// The logical devices of a program as one mesh of *atoms*.
//
// A module may name several meshes (x=4,y=2 here, a=8 there). All of them number the same devices,
// so all of their axes are cut into the finest common parts, of prime size: the atoms. An axis is
// then a list of atoms, a sub-axis a part of that list, and a sharding needs nothing but lists of
// atoms:
//
//   x=4,y=2 over 8 devices   atoms 0,1,2, sizes 2,2,2, strides 4,2,1;  x = {0,1}, y = {2}
//   the sub-axis x:(1)2      = {0}
//
// Atoms are ordered by stride, greatest first (row-major). The cost of every operation here depends
// on the number of atoms (11 for 2,048 devices), never on the number of devices. Immutable once
// made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/ir/sdy.h"
#include "shardway/topology/links.h"

namespace shardway::sharding {

using AxisSet = uint64_t;                          // one bit for each atom
using AxisList = absl::InlinedVector<uint8_t, 8>;  // atoms, major to minor

inline AxisSet ToSet(const AxisList& axes) {
  AxisSet set = 0;
  for (uint8_t a : axes) set |= AxisSet{1} << a;
  return set;
}
inline bool Contains(AxisSet set, uint8_t atom) { return (set >> atom) & 1; }
bool IsPrefix(const AxisList& prefix, const AxisList& list);
AxisList CommonPrefix(const AxisList& a, const AxisList& b);

// `size` steps of `stride` device ids.
struct Stride {
  int64_t size = 1;
  int64_t stride = 1;
  friend bool operator==(const Stride&, const Stride&) = default;
};
// Device ids as nested strides, major to minor: ids[k] = ids[0] + the digits of k times the
// strides. {0,2,4,6} is {4 x 2}; {0,1,4,5} is {2 x 4, 2 x 1}; nullopt when the ids are no such
// pattern.
std::optional<std::vector<Stride>> FindStrides(absl::Span<const int64_t> ids);
// An order of devices given as iota(product of `reshape`), transposed by `permutation`.
std::vector<Stride> IotaStrides(absl::Span<const int64_t> reshape,
                                absl::Span<const int64_t> permutation);

class Mesh {
 public:
  Mesh() = default;
  // `pieces` are all the strides that the program's meshes, shardings and groups step by; those
  // that do not divide each other cannot be cut in common: the later ones are then left out, and
  // `AtomsOf` has no answer for them.
  static absl::StatusOr<Mesh> Make(int64_t num_devices, absl::Span<const Stride> pieces);

  int64_t num_devices() const { return num_devices_; }
  int num_atoms() const { return static_cast<int>(atoms_.size()); }
  int64_t size(uint8_t atom) const { return atoms_[atom].size; }
  int64_t stride(uint8_t atom) const { return atoms_[atom].stride; }
  AxisSet all() const { return num_atoms() == 64 ? ~AxisSet{0} : (AxisSet{1} << num_atoms()) - 1; }
  int64_t SizeOf(const AxisList& axes) const;
  int64_t SizeOf(AxisSet axes) const;
  AxisList ToList(AxisSet axes) const;  // in mesh order

  // What sending between devices that differ in these atoms costs beside sending inside a host: the
  // dearest of them counts. 1 unless SetPlaces was called.
  topology::LinkPrice PriceOf(AxisSet axes) const;
  // Those of `axes` that are dearer than the others; empty where all cost the same.
  AxisSet DearestOf(AxisSet axes) const;
  // The place of every device, by id; for several replicas one after the other. Empty: one host.
  void SetPlaces(absl::Span<const topology::Place> places, const topology::LinkPrices& prices);

  // The atoms that make up these strides, or nullopt when they do not fall on atoms.
  std::optional<AxisList> AtomsOf(absl::Span<const Stride> strides) const;

  // Names for people: atoms print as the axes of the first mesh named here, sub-axes as x:(1)2.
  void Name(std::string name, AxisList atoms);
  const std::vector<std::pair<std::string, AxisList>>& names() const { return names_; }
  // The longest prefix of `axes` that is made of whole named axes; all of it where nothing is
  // named.
  AxisList WholeAxes(const AxisList& axes) const;
  // "x", "x,y", "x:(2)2"; "#3" for an atom without a name.
  std::string ToString(const AxisList& axes) const;

 private:
  int64_t num_devices_ = 1;
  AxisSet across_hosts_ = 0;    // the atoms whose places are on several hosts
  AxisSet across_islands_ = 0;  // a part of them
  topology::LinkPrices prices_;
  std::vector<Stride> atoms_;
  std::vector<std::pair<std::string, AxisList>> names_;
};

// The strides of every axis of `mesh`, one list for each axis; nullopt for an order of device ids
// that is no pattern of strides from 0.
std::optional<std::vector<std::vector<Stride>>> MeshStrides(const ir::SdyMesh& mesh);

}  // namespace shardway::sharding
