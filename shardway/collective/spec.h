// What a collective call is: the contract between the partitioner, which writes the calls, and
// comm, which carries them out. Groups are mesh axes, not device lists (design decision 3).
//
// In a per-device program for the `ffi` back end a collective is
//
//   %r = stablehlo.custom_call @shardway.collective(%x) {api_version = 4 : i32, has_side_effect =
//   true,
//          backend_config = {site = 3 : i32, op = "all-reduce(sum f32[128] over x)"}} : …
//
// `site` indexes the program's list of specifications (its manifest); `op` is for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardway/base/element_type.h"

namespace shardway::collective {

inline constexpr std::string_view kCustomCallTarget = "shardway.collective";

enum class Kind : uint8_t {
  kAllReduce,      // operands[i] → results[i] of the same shape, all combined over the group
  kAllGather,      // concatenates members' operands along `dim0`, in group order
  kReduceScatter,  // combines, then member m keeps the m-th of n equal parts along `dim0`
  kAllToAll,       // splits along `dim0` into n parts, part m goes to member m; received parts are
                   // concatenated along `dim1` in group order
  kCollectivePermute,    // in each group member pairs[i].first sends to member pairs[i].second; who
                         // receives nothing gets zeros
  kCollectiveBroadcast,  // member 0 of each group sends to the others
  kRaggedAllToAll,       // operands: input, output, input_offsets, send_sizes, output_offsets,
                    // recv_sizes (semantics of jax.lax.ragged_all_to_all); one result shaped like
                    // output
};

enum class Reduction : uint8_t { kNone, kSum, kProduct, kMin, kMax, kAnd, kOr, kXor };

const char* KindName(Kind kind);                 // "all_reduce"
const char* ReductionName(Reduction reduction);  // "sum"

// Who takes part with whom, over `num_devices()` logical devices (row-major in the mesh; with
// replicas and partitions the logical id is replica * num_partitions + partition).
struct Groups {
  // The mesh: axis sizes, major to minor. The devices of one group differ only in `axes`; the order
  // of members is row-major over `axes` as listed (so axes {1, 0} orders minor axis first).
  std::vector<int64_t> mesh;
  std::vector<int> axes;
  // Where a user's groups are not mesh axes (axis_index_groups): the lists themselves; `axes` is
  // then empty. Every group has the same size unless the collective is a permute or an all-reduce.
  std::vector<std::vector<int64_t>> lists;

  int64_t num_devices() const;
  int64_t group_size() const;                            // of the first group
  std::vector<int64_t> MembersOf(int64_t device) const;  // in group order; empty: takes no part
  friend bool operator==(const Groups&, const Groups&) = default;
};

struct Shaped {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> dims;
  int64_t num_elements() const;
  int64_t num_bytes() const;
  std::string ToString() const;  // "f32[2,4]"
  friend bool operator==(const Shaped&, const Shaped&) = default;
};

struct Spec {
  int32_t site = 0;  // dense from 0 within a program
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kNone;
  std::vector<Shaped> operands;
  std::vector<Shaped> results;
  int64_t dim0 = 0;
  int64_t dim1 = 0;
  Groups groups;
  // A permute's sources and targets: places in a group, row-major along its axes, the same in every
  // group. A shift by one along an axis of 8 in a mesh of 2,048 devices is seven pairs.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  // Estimated time in microseconds of the program between this call and the next one: tiny means
  // that a waiting device may be continued on the thread that completes the collective (decision
  // 3).
  double work_after_us = 0;
  std::string location;  // the user's line, for errors

  // "all_reduce sum f32[128] over axes [0] of [2,4]", "collective_permute f32[8] shift 1 over …"
  std::string ToString() const;
  // The kind as XLA spells it: "all-reduce", "collective-permute".
  std::string FieldName() const;
  friend bool operator==(const Spec&, const Spec&) = default;
};

// A permute's pairs as logical devices, of all groups, by ascending source.
std::vector<std::pair<int64_t, int64_t>> DevicePairs(const Spec& spec);

// INVALID_ARGUMENT when the specification is inconsistent: groups that name devices outside the
// mesh or overlap, shapes that don't fit the kind, a reduction that the element type doesn't have,
// …
absl::Status Validate(const Spec& spec);

// A program's list of collectives as bytes, for the way from the compiler to the workers.
std::string Serialize(const std::vector<Spec>& specs);
// Bytes come from another process: INVALID_ARGUMENT for anything malformed, for sites that are not
// 0, 1, 2, …, and for what Validate refuses.
absl::StatusOr<std::vector<Spec>> Parse(std::string_view bytes);

}  // namespace shardway::collective
