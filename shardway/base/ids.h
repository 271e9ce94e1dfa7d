// Identifiers that cross process boundaries: plain 64-bit numbers in messages, distinct types in
// code so that a program is never passed for an array.
//
// Result names are chosen by the client (design decision 6): an id the client picks is local to its
// session; the controller makes it global by putting the session's number into the upper bits.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace shardway {

template <typename Tag>
struct Id {
  uint64_t value = 0;  // 0 is never a valid id

  constexpr bool valid() const { return value != 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H state, Id id) {
    return H::combine(std::move(state), id.value);
  }
};

using SessionId = Id<struct SessionTag>;
using ProgramId = Id<struct ProgramTag>;  // one compiled program of one session
using ArrayId = Id<struct ArrayTag>;      // one sharded array, whatever the number of its shards
using RunId = Id<struct RunTag>;          // one launch of one program

// A session's ids fill the lower 40 bits.
inline constexpr int kSessionIdShift = 40;
inline constexpr uint64_t kMaxLocalId = (uint64_t{1} << kSessionIdShift) - 1;

template <typename Tag>
constexpr Id<Tag> GlobalId(SessionId session, Id<Tag> local) {
  return {(session.value << kSessionIdShift) | local.value};
}
template <typename Tag>
constexpr Id<Tag> LocalId(Id<Tag> global) {
  return {global.value & kMaxLocalId};
}
template <typename Tag>
constexpr SessionId SessionOf(Id<Tag> global) {
  return {global.value >> kSessionIdShift};
}

}  // namespace shardway

template <typename Tag>
struct std::hash<shardway::Id<Tag>> {
  size_t operator()(shardway::Id<Tag> id) const { return std::hash<uint64_t>()(id.value); }
};
