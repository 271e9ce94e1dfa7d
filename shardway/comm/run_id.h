// The run id under which XLA executes a launch on one of this host's devices. It is all that an FFI
// handler learns about its call, so it names both: several of our devices may share one of XLA's
// (device/pjrt_client.h), whose own ordinal then says nothing.
#pragma once

#include <cstdint>

namespace shardway::comm {

// Positive, as PJRT_ExecuteOptions.launch_id must be: 10 bits of ordinal + 1 below 21 of launch.
inline constexpr int kOrdinalBits = 10;
inline constexpr int kMaxOrdinals = (1 << kOrdinalBits) - 1;  // devices of a host
inline constexpr int32_t kLaunchKeys = int32_t{1} << (31 - kOrdinalBits);

// What a run id keeps of a launch's id. No two launches whose keys are equal are open at once on a
// host: two million runs lie between them.
constexpr int32_t LaunchKeyOf(int32_t launch) { return launch % kLaunchKeys; }

// `launch` is positive, `ordinal` in [0, kMaxOrdinals).
constexpr int32_t RunIdOf(int32_t launch, int ordinal) {
  return (LaunchKeyOf(launch) << kOrdinalBits) | (ordinal + 1);
}

struct RunId {
  int32_t launch_key = 0;
  int ordinal = -1;  // below 0: not a run id of ours
};
constexpr RunId ParseRunId(int64_t run_id) {
  if (run_id <= 0 || run_id > 0x7fffffff) return {};
  return {static_cast<int32_t>(run_id >> kOrdinalBits),
          static_cast<int>(run_id & kMaxOrdinals) - 1};
}

}  // namespace shardway::comm
