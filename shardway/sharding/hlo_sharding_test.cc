#include "shardway/sharding/hlo_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace shardway::sharding {
namespace {

using ::testing::HasSubstr;

Mesh TwoByFour() { return *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}}); }

std::string Hex(const std::string& bytes) {
  std::string text;
  for (unsigned char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", c);
    text += two;
  }
  return text;
}

const AxisList kX = {0};
const AxisList kY = {1, 2};
const AxisList kYX = {1, 2, 0};

// Golden bytes: what jaxlib serializes for the same NamedSharding over Mesh(2, 4).
TEST(OpSharding, EqualsJaxlibsBytes) {
  const Mesh mesh = TwoByFour();
  EXPECT_EQ(ToOpShardingBytes(Sharding{{{}, {}}}, mesh), "");
  EXPECT_EQ(Hex(ToOpShardingBytes(Sharding{{kX}}, mesh)), "08031a02020430014a0108520100");
  EXPECT_EQ(Hex(ToOpShardingBytes(Sharding{{kX, kY}}, mesh)), "08031a0202044a0108520100");
  EXPECT_EQ(Hex(ToOpShardingBytes(Sharding{{kY, kX}}, mesh)), "08031a0204024a02020452020100");
  EXPECT_EQ(Hex(ToOpShardingBytes(Sharding{{kYX}}, mesh)), "08031a01084a02020452020100");
  EXPECT_EQ(Hex(ToOpShardingBytes(Sharding{{{}, kY}}, mesh)), "08031a0301040230014a02020452020100");
}

absl::StatusOr<Annotation> Read(const char* text, int rank, const Mesh& mesh) {
  auto parsed = ParseHloSharding(text);
  if (!parsed.ok()) return parsed.status();
  return ToAnnotation(*parsed, rank, mesh);
}

TEST(HloSharding, ReadsTiles) {
  const Mesh mesh = TwoByFour();
  EXPECT_EQ(Read("{devices=[2,4]<=[8]}", 2, mesh)->sharding, (Sharding{{kX, kY}}));
  EXPECT_EQ(Read("{devices=[4,2]<=[2,4]T(1,0)}", 2, mesh)->sharding, (Sharding{{kY, kX}}));
  EXPECT_EQ(Read("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, mesh)->sharding,
            (Sharding{{kX, {}}}));
  EXPECT_EQ(Read("{devices=[2,4]0,1,2,3,4,5,6,7}", 2, mesh)->sharding, (Sharding{{kX, kY}}));
  EXPECT_EQ(Read("{replicated}", 1, mesh)->sharding, (Sharding{{{}}}));
}

TEST(HloSharding, ReadsManualSubgroups) {
  const Mesh mesh = TwoByFour();
  const auto part = Read("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}", 2, mesh);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->sharding, (Sharding{{{}, kY}}));
  EXPECT_EQ(part->manual, ToSet(kX));
  EXPECT_EQ(Read("{manual}", 0, mesh)->manual, mesh.all());
}

TEST(HloSharding, FaultsAreErrors) {
  const Mesh mesh = TwoByFour();
  for (const char* text :
       {"", "{", "{devices=[2,4]<=[7]}", "{devices=[2,4]<=[8]", "{devices=[0]<=[0]}", "{what}",
        "{devices=[8]<=[2,4]T(1,1)}", "{devices=[99999999999999]<=[8]}", "{maximal}"}) {
    EXPECT_EQ(ParseHloSharding(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(std::string(Read("{devices=[8]<=[8]}", 2, mesh).status().message()),
              HasSubstr("rank 2"));
  EXPECT_THAT(std::string(Read("{devices=[4]<=[4]}", 1, mesh).status().message()),
              HasSubstr("4 devices"));
  EXPECT_EQ(Read("{devices=[4]1,0,3,2}", 1, mesh).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace shardway::sharding
