#include "shardway/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardway::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitRunArgumentsTest, OurOptionsEndAtTheScript) {
  const SplitArguments split =
      SplitRunArguments({"--islands", "2", "--devices=4", "train.py", "--devices", "9"});
  EXPECT_THAT(split.own, ElementsAre("--islands", "2", "--devices=4"));
  EXPECT_THAT(split.python, ElementsAre("train.py", "--devices", "9"));
}

TEST(SplitRunArgumentsTest, ModulesAndCodeArePythons) {
  EXPECT_THAT(SplitRunArguments({"-m", "pytest", "-x"}).python, ElementsAre("-m", "pytest", "-x"));
  EXPECT_THAT(SplitRunArguments({"--hosts", "2", "-c", "1"}).python, ElementsAre("-c", "1"));
  EXPECT_THAT(SplitRunArguments({"--", "--odd.py"}).python, ElementsAre("--odd.py"));
}

TEST(SplitRunArgumentsTest, HelpTakesNoValue) {
  const SplitArguments split = SplitRunArguments({"--help", "x.py"});
  EXPECT_THAT(split.own, ElementsAre("--help"));
  EXPECT_THAT(split.python, ElementsAre("x.py"));
  EXPECT_THAT(SplitRunArguments({}).python, IsEmpty());
}

}  // namespace
}  // namespace shardway::cli
