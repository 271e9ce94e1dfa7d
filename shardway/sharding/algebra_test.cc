#include "shardway/sharding/algebra.h"

#include <gtest/gtest.h>

#include "shardway/sharding/random_sharding.h"

namespace shardway::sharding {
namespace {

// Shardings that often have something in common: prefixes of each other, with some changes.
class Laws : public ::testing::Test {
 protected:
  static constexpr int kRank = 2;

  Sharding Next() {
    if (!last_ || Coin(4)) {
      last_ = RandomSharding(random_, mesh_, kRank);
      return *last_;
    }
    Sharding next = *last_;
    for (AxisList& axes : next.dims) {
      if (Coin(2)) axes.resize(std::uniform_int_distribution<size_t>(0, axes.size())(random_));
    }
    for (int a = 0; a < mesh_.num_atoms(); ++a) {
      if (Coin(4) && !Contains(next.used(), a)) next.dims[Coin(2) ? 0 : 1].push_back(a);
    }
    return next;
  }
  bool Coin(int n) { return std::uniform_int_distribution<int>(1, n)(random_) == 1; }

  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  const Mesh mesh_ = *Mesh::Make(24, std::vector<Stride>{{2, 12}, {4, 3}, {3, 1}});
  std::optional<Sharding> last_;
};

TEST_F(Laws, RefinesIsAPartialOrder) {
  int related = 0;
  for (int i = 0; i < 3000; ++i) {
    const Sharding a = Next(), b = Next(), c = Next();
    ASSERT_TRUE(IsValid(a, mesh_));
    EXPECT_TRUE(Refines(a, a));
    EXPECT_TRUE(Refines(a, Sharding::Replicated(kRank)));
    EXPECT_EQ(Refines(a, b) && Refines(b, a), a == b) << "seed " << seed_;
    if (Refines(a, b) && Refines(b, c)) {
      ++related;
      EXPECT_TRUE(Refines(a, c)) << "seed " << seed_;
    }
  }
  EXPECT_GT(related, 10);
}

TEST_F(Laws, MeetIsTheGreatestLowerBound) {
  for (int i = 0; i < 3000; ++i) {
    const Sharding a = Next(), b = Next(), c = Next();
    const Sharding meet = Meet(a, b);
    EXPECT_TRUE(Refines(a, meet) && Refines(b, meet)) << "seed " << seed_;
    EXPECT_EQ(Refines(a, c) && Refines(b, c), Refines(meet, c)) << "seed " << seed_;
    EXPECT_EQ(meet, Meet(b, a)) << "seed " << seed_;
    EXPECT_EQ(Meet(meet, c), Meet(a, Meet(b, c))) << "seed " << seed_;
    EXPECT_EQ(Meet(a, a), a);
  }
}

TEST_F(Laws, MergeIsTheLeastUpperBound) {
  int merged = 0, chained = 0;
  for (int i = 0; i < 3000; ++i) {
    const Sharding a = Next(), b = Next(), c = Next();
    const auto ab = Merge(a, b);
    EXPECT_EQ(ab, Merge(b, a)) << "seed " << seed_;
    EXPECT_EQ(Merge(a, a), a);
    EXPECT_EQ(Merge(a, Sharding::Replicated(kRank)), a);
    EXPECT_EQ(ab.has_value() && *ab == a, Refines(a, b)) << "seed " << seed_;
    EXPECT_EQ(Merge(a, Meet(a, b)), a) << "seed " << seed_;
    if (ab) {
      ++merged;
      EXPECT_TRUE(IsValid(*ab, mesh_) && Refines(*ab, a) && Refines(*ab, b)) << "seed " << seed_;
      EXPECT_EQ(Meet(a, *ab), a) << "seed " << seed_;
    }
    if (Refines(c, a) && Refines(c, b)) {
      ASSERT_TRUE(ab.has_value()) << "a common refinement exists; seed " << seed_;
      EXPECT_TRUE(Refines(c, *ab)) << "seed " << seed_;
    }
    const auto bc = Merge(b, c);
    const auto left = ab ? Merge(*ab, c) : std::nullopt;
    const auto right = bc ? Merge(a, *bc) : std::nullopt;
    EXPECT_EQ(left, right) << "seed " << seed_;
    chained += left.has_value();
  }
  EXPECT_GT(merged, 100);
  EXPECT_GT(chained, 10);
}

TEST_F(Laws, ShardsShrinkWithRefinement) {
  const ir::Type type = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{37, 48});
  for (int i = 0; i < 1000; ++i) {
    const Sharding a = Next(), b = Next();
    if (!Refines(a, b)) continue;
    const ir::Type fine = LocalType(type, a, mesh_), coarse = LocalType(type, b, mesh_);
    for (int d = 0; d < kRank; ++d) EXPECT_LE(fine.dims[d], coarse.dims[d]) << "seed " << seed_;
  }
}

}  // namespace
}  // namespace shardway::sharding
