#include "shardway/comm/run_id.h"

#include "gtest/gtest.h"

namespace shardway::comm {
namespace {

TEST(RunIdTest, NamesLaunchAndDevice) {
  for (int32_t launch : {1, 2, kLaunchKeys - 1, kLaunchKeys, kLaunchKeys + 1, 0x7fffffff}) {
    for (int ordinal : {0, 1, 24, kMaxOrdinals - 1}) {
      const int32_t id = RunIdOf(launch, ordinal);
      EXPECT_GT(id, 0);  // 0 would be "none" to PJRT
      EXPECT_EQ(ParseRunId(id).launch_key, LaunchKeyOf(launch));
      EXPECT_EQ(ParseRunId(id).ordinal, ordinal);
    }
  }
}

TEST(RunIdTest, RefusesWhatIsNotOurs) {
  for (int64_t id : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, int64_t{1} << 62}) {
    EXPECT_LT(ParseRunId(id).ordinal, 0) << id;
  }
  EXPECT_LT(ParseRunId(int64_t{5} << kOrdinalBits).ordinal, 0);
}

}  // namespace
}  // namespace shardway::comm
