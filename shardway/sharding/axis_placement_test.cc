#include "shardway/sharding/axis_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace shardway::sharding {
namespace {

// The device on which a placement puts each tile, tiles in row-major order over the axes.
std::vector<int64_t> Devices(const AxisPlacement& placement, const Mesh& mesh) {
  std::vector<int64_t> devices = {0};
  for (const AxisList& atoms : placement.axes) {
    for (uint8_t a : atoms) {
      std::vector<int64_t> next;
      for (int64_t d : devices) {
        for (int64_t i = 0; i < mesh.size(a); ++i) next.push_back(d + i * mesh.stride(a));
      }
      devices = std::move(next);
    }
  }
  if (placement.order == nullptr) return devices;
  for (int64_t& d : devices) d = (*placement.order)[d];
  return devices;
}

TEST(AxisPlacement, EveryTileIsWhereItsMeshSays) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const std::vector<int64_t> shapes[] = {{24}, {2, 12}, {3, 8}, {4, 3, 2}, {6, 4}, {1, 24}};
  for (int i = 0; i < 300; ++i) {
    const Mesh mesh = *Mesh::Make(24, i % 2 == 0 ? std::vector<Stride>{{2, 12}, {4, 3}, {3, 1}}
                                                 : std::vector<Stride>{{3, 8}, {8, 1}});
    const std::vector<int64_t>& sizes = shapes[i % std::size(shapes)];
    std::vector<int64_t> ids(24);
    std::iota(ids.begin(), ids.end(), 0);
    if (i % 3 != 0) std::shuffle(ids.begin(), ids.end(), random);
    const auto placement = PlaceAxes(sizes, ids, mesh);
    ASSERT_TRUE(placement.ok()) << placement.status() << " seed " << seed;
    EXPECT_EQ(Devices(*placement, mesh), ids) << "seed " << seed;
    for (size_t a = 0; a < sizes.size(); ++a) {
      EXPECT_EQ(mesh.SizeOf(placement->axes[a]), sizes[a]);
    }
  }
}

// 2x3 beside 3x2: no common cut, and an order of devices of its own.
TEST(AxisPlacement, MeshesWithoutACommonCut) {
  const Mesh mesh = *Mesh::Make(6, std::vector<Stride>{{2, 3}, {3, 1}});
  const auto own = PlaceAxes(ir::SdyMesh{{{"x", 2}, {"y", 3}}, {}}, mesh);
  EXPECT_EQ(own->order, nullptr);
  const auto other = PlaceAxes(ir::SdyMesh{{{"a", 3}, {"b", 2}}, {}}, mesh);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_NE(other->order, nullptr);
  EXPECT_EQ(Devices(*other, mesh), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(AxisPlacement, TransposedMeshesNeedNoOrder) {
  const Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  const auto placement =
      PlaceAxes(ir::SdyMesh{{{"a", 4}, {"b", 2}}, {0, 4, 1, 5, 2, 6, 3, 7}}, mesh);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->order, nullptr);
}

TEST(AxisPlacement, WhatIsNoMeshIsAnError) {
  const Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> wrong[] = {
      {{4}, {}},
      {{0}, {}},
      {{-8}, {}},
      {{1 << 30, 1 << 30}, {}},
      {{8}, {0, 1, 2}},
      {{8}, {0, 1, 2, 3, 4, 5, 6, 6}},
      {{8}, {0, 1, 2, 3, 4, 5, 6, 8}},
      {{3, 3}, {}}};
  for (const auto& [sizes, ids] : wrong) {
    EXPECT_EQ(PlaceAxes(sizes, ids, mesh).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace shardway::sharding
