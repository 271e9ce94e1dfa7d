#include "shardway/ir/bytecode/mesh_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardway::ir::bytecode {
namespace {

using testing::ElementsAre;

const SdyMesh kMesh = {{{"x", 2}, {"y", 4}}, {}};

std::vector<int64_t> Groups(const SdyMesh& mesh, const std::vector<SdyAxisRef>& axes) {
  const auto groups = ExpandMeshAxes(mesh, axes);
  EXPECT_TRUE(groups.ok()) << groups.status();
  return groups.ok() ? groups->Ints() : std::vector<int64_t>{};
}

TEST(MeshGroups, WholeAxes) {
  EXPECT_THAT(Groups(kMesh, {{"x", {}}}), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(Groups(kMesh, {{"y", {}}}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Groups(kMesh, {{"y", {}}, {"x", {}}}), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_EQ(ExpandMeshAxes(kMesh, {})->type.ToString(), "tensor<8x1xi64>");
}

TEST(MeshGroups, PartsOfAnAxis) {
  EXPECT_THAT(Groups(kMesh, {{"y", {{1, 2}}}}), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(Groups(kMesh, {{"y", {{2, 2}}}}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(ExpandMeshAxes(kMesh, {{"y", {{2, 2}}}})->type.ToString(), "tensor<4x2xi64>");
}

TEST(MeshGroups, OrderOfDevices) {
  const SdyMesh mesh = {{{"x", 2}, {"y", 2}}, {3, 2, 1, 0}};
  EXPECT_THAT(Groups(mesh, {{"x", {}}}), ElementsAre(3, 1, 2, 0));
}

TEST(MeshGroups, NonsenseIsAnError) {
  EXPECT_FALSE(ExpandMeshAxes(kMesh, {{"z", {}}}).ok());
  EXPECT_FALSE(ExpandMeshAxes(kMesh, {{"x", {}}, {"x", {}}}).ok());
  EXPECT_FALSE(ExpandMeshAxes(kMesh, {{"y", {{3, 2}}}}).ok());
  EXPECT_FALSE(ExpandMeshAxes({{{"x", int64_t{1} << 40}}, {}}, {{"x", {}}}).ok());
  EXPECT_FALSE(ExpandMeshAxes({{{"x", 2}}, {0}}, {{"x", {}}}).ok());
}

}  // namespace
}  // namespace shardway::ir::bytecode
