#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GroupsTest : public testing::Test {
 protected:
  Emitter On(int64_t replicas) {
    return Emitter(p_.module.get(), p_.main->body, &p_.program.mesh, replicas, Backend::kFfi);
  }
  TestProgram p_;
};

TEST_F(GroupsTest, AxesAreFewestThatTellGroupsApart) {
  Emitter e = On(1);
  EXPECT_THAT(e.GroupsOver(kY).mesh, ElementsAre(2, 4));
  EXPECT_THAT(e.GroupsOver(kY).axes, ElementsAre(1));
  EXPECT_THAT(e.GroupsOver({0, 1, 2}).mesh, ElementsAre(8));
  EXPECT_THAT(e.GroupsOver({2, 0}).MembersOf(3), ElementsAre(2, 6, 3, 7));
}

TEST_F(GroupsTest, ReplicasAreTheMajorAxis) {
  Emitter e = On(3);
  EXPECT_THAT(e.GroupsOver(kX).MembersOf(8 + 1), ElementsAre(8 + 1, 8 + 5));
}

TEST_F(GroupsTest, ListsBecomeAxesWhereTheyCan) {
  Emitter e = On(1);
  const auto strided = e.GroupsFromLists({{0, 2, 4, 6}, {1, 3, 5, 7}});
  EXPECT_THAT(strided.lists, IsEmpty());
  EXPECT_THAT(strided.MembersOf(5), ElementsAre(1, 3, 5, 7));
  const auto odd = e.GroupsFromLists({{0, 3}, {1, 2}, {4, 7}, {5, 6}});
  EXPECT_EQ(odd.lists.size(), 4u);
  EXPECT_THAT(odd.MembersOf(7), ElementsAre(4, 7));
}

}  // namespace
}  // namespace shardway::spmd
