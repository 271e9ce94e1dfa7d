#include "shardway/sharding/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace shardway::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

ir::SdyMesh XY(int64_t x, int64_t y) { return {.axes = {{"x", x}, {"y", y}}, .device_ids = {}}; }

std::vector<Stride> Pieces(const ir::SdyMesh& mesh) {
  std::vector<Stride> pieces;
  const auto axes = MeshStrides(mesh);
  for (const auto& axis : *axes) pieces.insert(pieces.end(), axis.begin(), axis.end());
  return pieces;
}

TEST(Mesh, CutsAxesIntoPrimes) {
  auto mesh = Mesh::Make(8, Pieces(XY(4, 2)));
  ASSERT_TRUE(mesh.ok());
  EXPECT_EQ(mesh->num_atoms(), 3);
  EXPECT_THAT(mesh->AtomsOf({{{4, 2}}}), Optional(AxisList{0, 1}));
  EXPECT_THAT(mesh->AtomsOf({{{2, 1}}}), Optional(AxisList{2}));
}

TEST(Mesh, CutsSeveralMeshesInCommon) {
  // 12 devices as 3x4 and as 6x2: cuts at 4 and at 2.
  std::vector<Stride> pieces = Pieces(XY(3, 4));
  for (const Stride& s : Pieces(XY(6, 2))) pieces.push_back(s);
  auto mesh = Mesh::Make(12, pieces);
  ASSERT_TRUE(mesh.ok());
  EXPECT_TRUE(mesh->AtomsOf({{{3, 4}}}).has_value());
  EXPECT_TRUE(mesh->AtomsOf({{{4, 1}}}).has_value());
  EXPECT_TRUE(mesh->AtomsOf({{{6, 2}}}).has_value());
}

TEST(Mesh, LeavesOutWhatCannotBeCutInCommon) {
  std::vector<Stride> pieces = Pieces(XY(2, 3));
  for (const Stride& s : Pieces(XY(3, 2))) pieces.push_back(s);
  auto mesh = Mesh::Make(6, pieces);
  ASSERT_TRUE(mesh.ok());
  EXPECT_TRUE(mesh->AtomsOf({{{3, 1}}}).has_value());
  EXPECT_FALSE(mesh->AtomsOf({{{2, 1}}}).has_value());
}

TEST(Mesh, NamesAtomsAsTheirAxes) {
  auto mesh = Mesh::Make(8, Pieces(XY(4, 2)));
  ASSERT_TRUE(mesh.ok());
  mesh->Name("x", {0, 1});
  mesh->Name("y", {2});
  EXPECT_EQ(mesh->ToString(AxisList{0, 1}), "x");
  EXPECT_EQ(mesh->ToString(AxisList{2, 0, 1}), "y,x");
  EXPECT_EQ(mesh->ToString(AxisList{1}), "x:(2)2");
}

TEST(Strides, AreFoundInTransposedOrders) {
  const int64_t transposed[] = {0, 4, 1, 5, 2, 6, 3, 7};
  EXPECT_THAT(FindStrides(transposed), Optional(ElementsAre(Stride{4, 1}, Stride{2, 4})));
  const int64_t none[] = {0, 1, 3, 2};
  EXPECT_FALSE(FindStrides(none).has_value());
  EXPECT_THAT(IotaStrides(std::vector<int64_t>{2, 4}, std::vector<int64_t>{1, 0}),
              ElementsAre(Stride{4, 1}, Stride{2, 4}));
}

TEST(Strides, OfAnyPermutedIotaDescribeIt) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> reshape, permutation;
    int64_t n = 1;
    for (int i = 0; i < 3; ++i) {
      reshape.push_back(1 + static_cast<int64_t>(random() % 4));
      permutation.push_back(i);
      n *= reshape.back();
    }
    std::shuffle(permutation.begin(), permutation.end(), random);
    const auto strides = IotaStrides(reshape, permutation);
    std::vector<int64_t> ids(n, 0);
    for (int64_t k = 0; k < n; ++k) {
      int64_t rest = k;
      for (size_t i = strides.size(); i-- > 0;) {
        ids[k] += rest % strides[i].size * strides[i].stride;
        rest /= strides[i].size;
      }
    }
    const auto found = FindStrides(ids);
    ASSERT_TRUE(found.has_value());
    for (int64_t k = 0; k < n; ++k) {
      int64_t rest = k, id = 0;
      for (size_t i = found->size(); i-- > 0;) {
        id += rest % (*found)[i].size * (*found)[i].stride;
        rest /= (*found)[i].size;
      }
      EXPECT_EQ(id, ids[k]);
    }
  }
}

TEST(Mesh, WholeAxesAreThoseOfTheUser) {
  Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  ASSERT_EQ(mesh.num_atoms(), 3);
  EXPECT_EQ(mesh.WholeAxes({0, 1}), (AxisList{0, 1}));  // nothing is named
  mesh.Name("x", {0});
  mesh.Name("y", {1, 2});
  EXPECT_EQ(mesh.WholeAxes({0, 1}), AxisList{0});
  EXPECT_EQ(mesh.WholeAxes({0, 1, 2}), (AxisList{0, 1, 2}));
  EXPECT_EQ(mesh.WholeAxes({1}), AxisList{});
  EXPECT_EQ(mesh.WholeAxes({1, 2, 0}), (AxisList{1, 2, 0}));
  EXPECT_EQ(mesh.WholeAxes({2, 1}), AxisList{});
}

using topology::LinkPrice;
using topology::LinkPrices;
using topology::Place;

TEST(Mesh, AxesThatCrossIslandsAreDearer) {
  Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {2, 2}, {2, 1}});
  auto dear = [&](const std::vector<int>& island_of) {
    std::vector<Place> places;
    for (int island : island_of) places.push_back({island, island});
    mesh.SetPlaces(places, {});
    std::vector<bool> dear(mesh.num_atoms());
    for (int a = 0; a < mesh.num_atoms(); ++a) dear[a] = mesh.PriceOf(AxisSet{1} << a).byte > 1;
    return dear;
  };
  EXPECT_THAT(dear({}), ElementsAre(false, false, false));
  EXPECT_THAT(dear({0, 0, 0, 0, 1, 1, 1, 1}), ElementsAre(true, false, false));
  EXPECT_THAT(dear({0, 1, 0, 1, 0, 1, 0, 1}), ElementsAre(false, false, true));
  EXPECT_THAT(dear({0, 0, 1, 1, 2, 2, 3, 3}), ElementsAre(true, true, false));
  EXPECT_THAT(dear({0, 0, 0, 0, 0, 0, 0, 1}), ElementsAre(true, true, true));
  // Two replicas of eight: the second one lies elsewhere.
  EXPECT_THAT(dear({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1}),
              ElementsAre(false, true, false));
}

TEST(Mesh, EachAxisHasThePriceOfItsFarthestLink) {
  // 2 islands of 2 hosts of 2 devices.
  Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {2, 2}, {2, 1}});
  std::vector<Place> places;
  for (int d = 0; d < 8; ++d) places.push_back({d / 4, d / 2});
  const LinkPrices prices{{4, 2}, {64, 16}};
  mesh.SetPlaces(places, prices);
  EXPECT_EQ(mesh.PriceOf(0b001), prices.between_islands);
  EXPECT_EQ(mesh.PriceOf(0b010), prices.between_hosts);
  EXPECT_EQ(mesh.PriceOf(0b100), LinkPrice());
  EXPECT_EQ(mesh.PriceOf(0b110), prices.between_hosts);
  EXPECT_EQ(mesh.PriceOf(0b111), prices.between_islands);
  EXPECT_EQ(mesh.PriceOf(0), LinkPrice());
  EXPECT_EQ(mesh.DearestOf(0b111), AxisSet{0b001});
  EXPECT_EQ(mesh.DearestOf(0b110), AxisSet{0b010});
  EXPECT_EQ(mesh.DearestOf(0b100), AxisSet{0});
  EXPECT_EQ(mesh.DearestOf(0), AxisSet{0});
  // Where hosts cost nothing more only islands count.
  mesh.SetPlaces(places, {});
  EXPECT_EQ(mesh.DearestOf(0b110), AxisSet{0});
  EXPECT_EQ(mesh.DearestOf(0b111), AxisSet{0b001});
}

TEST(MeshStrides, ReadExplicitDeviceOrders) {
  ir::SdyMesh mesh = XY(2, 2);
  mesh.device_ids = {0, 2, 1, 3};
  const auto strides = MeshStrides(mesh);
  ASSERT_TRUE(strides.has_value());
  EXPECT_THAT((*strides)[0], ElementsAre(Stride{2, 1}));
  EXPECT_THAT((*strides)[1], ElementsAre(Stride{2, 2}));
  mesh.device_ids = {0, 1, 3, 2};
  EXPECT_FALSE(MeshStrides(mesh).has_value());
}

}  // namespace
}  // namespace shardway::sharding
