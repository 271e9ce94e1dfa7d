#include "shardway/sharding/sdy_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardway::sharding {
namespace {

using ::testing::HasSubstr;

class SdyShardingTest : public testing::Test {
 protected:
  SdyShardingTest() {
    module_.meshes.emplace_back("mesh",
                                ir::SdyMesh{.axes = {{"x", 2}, {"y", 4}}, .device_ids = {}});
    module_.meshes.emplace_back("device_3", ir::SdyMesh{.axes = {}, .device_ids = {3}});
  }
  static ir::SdyDimSharding Dim(std::vector<ir::SdyAxisRef> axes, bool closed = true) {
    return {.axes = std::move(axes), .closed = closed, .priority = {}};
  }
  static ir::SdySharding On(std::vector<ir::SdyDimSharding> dims) {
    ir::SdySharding sharding;
    sharding.mesh_name = "mesh";
    sharding.dims = std::move(dims);
    return sharding;
  }
  std::string Fault(const ir::SdySharding& sharding, int rank) {
    return std::string(meshes_.ToAnnotation(sharding, rank).status().message());
  }

  ir::Module module_;
  Mesh mesh_ = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  SdyMeshes meshes_{&module_, &mesh_};
};

TEST_F(SdyShardingTest, AxesBecomeAtoms) {
  const auto a = meshes_.ToAnnotation(On({Dim({{"y", {}}}), Dim({{"x", {}}}, false)}), 2);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->sharding, (Sharding{{{1, 2}, {0}}}));
  EXPECT_EQ(a->open, 0b10u);
}

TEST_F(SdyShardingTest, SubAxesArePartsOfTheirAxis) {
  const auto a = meshes_.ToAnnotation(On({Dim({{"y", {{2, 2}}}})}), 1);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->sharding, (Sharding{{{2}}}));
}

TEST_F(SdyShardingTest, OneDeviceIsMaximal) {
  ir::SdySharding sharding;
  sharding.mesh_name = "device_3";
  EXPECT_TRUE(meshes_.ToAnnotation(sharding, 2)->maximal);
}

// What JAX writes for the key arrays of a program whose mesh it does not know.
TEST_F(SdyShardingTest, WithoutAMeshDimensionsMayBeOpen) {
  ir::SdySharding sharding = On({Dim({}, false), Dim({}, true), Dim({}, false)});
  sharding.mesh = ir::SdyMesh{};
  const auto a = meshes_.ToAnnotation(sharding, 3);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_FALSE(a->maximal);
  EXPECT_EQ(a->open, 0b101u);
}

TEST_F(SdyShardingTest, OneDeviceHoldsAllOfWhateverIsSplit) {
  const Mesh one = *Mesh::Make(1, std::vector<Stride>{{2, 4}, {4, 1}});
  const SdyMeshes meshes(&module_, &one);
  const ir::SdySharding split = On({Dim({{"x", {}}}), Dim({{"y", {{2, 2}}}})});
  const auto a = meshes.ToAnnotation(split, 2);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_TRUE(a->sharding.replicated());
  EXPECT_EQ(a->sharding.rank(), 2);
  // A region over axes of the mesh is written for that mesh.
  EXPECT_THAT(std::string(meshes.ToSet(split, {"x"}).status().message()),
              HasSubstr("does not have the program's 1 devices"));
  const Mesh four = *Mesh::Make(4, std::vector<Stride>{{4, 1}});
  EXPECT_THAT(std::string(SdyMeshes(&module_, &four).ToAnnotation(split, 2).status().message()),
              HasSubstr("the mesh x=2,y=4 does not have the program's 4 devices"));
}

TEST_F(SdyShardingTest, FaultsNameWhatIsWrong) {
  EXPECT_THAT(Fault(On({Dim({{"z", {}}})}), 1), HasSubstr("\"z\""));
  EXPECT_THAT(Fault(On({Dim({{"x", {}}}), Dim({{"x", {}}})}), 2), HasSubstr("\"x\" twice"));
  EXPECT_THAT(Fault(On({Dim({})}), 2), HasSubstr("rank 2"));
  EXPECT_THAT(Fault(On({Dim({{"y", {{3, 2}}}})}), 1), HasSubstr("does not divide"));
  ir::SdySharding unknown = On({});
  unknown.mesh_name = "nowhere";
  EXPECT_THAT(Fault(unknown, 0), HasSubstr("@nowhere"));
}

}  // namespace
}  // namespace shardway::sharding
