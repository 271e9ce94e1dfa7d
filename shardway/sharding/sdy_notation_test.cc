#include "shardway/sharding/sdy_notation.h"

#include <gtest/gtest.h>

#include "shardway/sharding/random_sharding.h"
#include "shardway/sharding/sdy_sharding.h"

namespace shardway::sharding {
namespace {

TEST(SdyNotation, ReadsBackAsTheSame) {
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 500; ++i) {
    Mesh mesh = *Mesh::Make(24, std::vector<Stride>{{2, 12}, {4, 3}, {3, 1}, {12, 1}});
    if (i % 2 == 0) mesh.Name("x", AxisList{0});
    if (i % 3 == 0) mesh.Name("y", AxisList{1, 2});
    if (i % 5 == 0) mesh.Name("zx", AxisList{3, 0});  // no stretch of row-major order
    const SdyNotation notation(mesh);
    ir::Module module;
    module.meshes.emplace_back("mesh", notation.mesh());
    const int rank = std::uniform_int_distribution<int>(0, 4)(random);
    const Sharding sharding = RandomSharding(random, mesh, rank);
    const ir::SdySharding written = notation.Write(sharding);
    const auto read = SdyMeshes(&module, &mesh).ToAnnotation(written, rank);
    ASSERT_TRUE(read.ok()) << read.status() << " seed " << seed;
    EXPECT_EQ(read->sharding, sharding) << ToString(sharding, mesh) << " seed " << seed;
    EXPECT_EQ(read->open, 0u);
  }
}

TEST(SdyNotation, NamesWholeAndPartialAxes) {
  Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  mesh.Name("x", AxisList{0});
  mesh.Name("y", AxisList{1, 2});
  const SdyNotation notation(mesh);
  EXPECT_EQ(notation.Axes({0, 1, 2}), (std::vector<ir::SdyAxisRef>{{"x", {}}, {"y", {}}}));
  EXPECT_EQ(notation.Axes({2, 0}), (std::vector<ir::SdyAxisRef>{{"y", {{2, 2}}}, {"x", {}}}));
  EXPECT_EQ(notation.Write(Sharding{{{0}, {}}}, 2).dims[1].closed, false);
}

}  // namespace
}  // namespace shardway::sharding
