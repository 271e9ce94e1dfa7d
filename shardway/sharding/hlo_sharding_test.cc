#include "shardway/sharding/hlo_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "shardway/sharding/random_sharding.h"

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
  const auto in_parts = [&](const Sharding& sharding, AxisSet unreduced) {
    return Hex(ToOpShardingBytes(sharding, mesh, nullptr, unreduced));
  };
  EXPECT_EQ(in_parts({{{}}}, ToSet(kX)), "08031a03010204420206004a0108520100");
  EXPECT_EQ(in_parts({{{}}}, mesh.all()), "0806");
  EXPECT_EQ(in_parts({{kX, {}}}, ToSet(kY)), "08031a030201044201064a0108520100");
  EXPECT_EQ(in_parts({{{}, kY}}, ToSet(kX)), "08031a030104024201064a02020452020100");
  EXPECT_EQ(in_parts({{{}, {}}}, ToSet(kY)), "08031a0401010402420206004a02020452020100");
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

TEST(HloSharding, TilesMeanNothingOnOneDevice) {
  const Mesh one = *Mesh::Make(1, {});
  const auto split = Read("{devices=[2,4]<=[8]}", 2, one);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_TRUE(split->sharding.replicated());
  EXPECT_EQ(Read("{devices=[2,4]<=[8]}", 2, *Mesh::Make(4, {})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HloSharding, ReadsManualSubgroups) {
  const Mesh mesh = TwoByFour();
  const auto part = Read("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}", 2, mesh);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->sharding, (Sharding{{{}, kY}}));
  EXPECT_EQ(part->manual, ToSet(kX));
  EXPECT_EQ(Read("{manual}", 0, mesh)->manual, mesh.all());
}

TEST(HloSharding, ReadsUnreducedSubgroups) {
  const Mesh mesh = TwoByFour();
  const auto part = Read("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={unreduced}}", 2, mesh);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->sharding, (Sharding{{{}, kY}}));
  EXPECT_EQ(part->unreduced, ToSet(kX));
  EXPECT_EQ(Read("{unreduced}", 0, mesh)->unreduced, mesh.all());
}

// Golden bytes and strings: what jaxlib's HloSharding and OpSharding say.
TEST(HloSharding, EqualsJaxlibsProtoAndText) {
  const std::pair<const char*, const char*> cases[] = {
      {"{replicated}", ""},
      {"{maximal device=3}", "08011a0101220103"},
      {"{manual}", "0804"},
      {"{unknown}", "0805"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
       "08031a0402010202420204004a0108520100"},
      {"{devices=[2,1,2,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}",
       "08031a0402010202420204004a02020452020100"},
      {"{devices=[2,4]0,2,1,3,4,5,6,7}", "08031a02020422080002010304050607"},
      {"{{devices=[2,4]0,2,1,3,4,5,6,7}, {replicated}}",
       "08022a1008031a020204220800020103040506072a00"},
      {"{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
       "08031a03020104220800010203040506073001"},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseHloSharding(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(ToString(*parsed), text);
    EXPECT_EQ(Hex(ToProto(*parsed)), bytes);
    const auto read = FromProto(ToProto(*parsed));
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(*read, *parsed) << text;
  }
}

// Both texts (iota, and device by device) and the bytes read back as the sharding they came from.
TEST(HloSharding, ConvertsBothWays) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const Mesh mesh = *Mesh::Make(24, std::vector<Stride>{{2, 12}, {4, 3}, {3, 1}});
  for (int i = 0; i < 500; ++i) {
    const int rank = std::uniform_int_distribution<int>(0, 4)(random);
    const Sharding sharding = RandomSharding(random, mesh, rank);
    AxisSet manual = std::uniform_int_distribution<AxisSet>(0, mesh.all())(random);
    manual &= i % 2 == 0 ? AxisSet{0} : ~sharding.used();
    AxisSet unreduced = std::uniform_int_distribution<AxisSet>(0, mesh.all())(random);
    unreduced &= i % 3 == 0 ? AxisSet{0} : ~sharding.used() & ~manual;
    const HloSharding iota = ToHloSharding(sharding, mesh, manual, unreduced);
    HloSharding listed = iota;
    listed.devices = DevicesOf(iota);
    if (!listed.devices.empty()) listed.reshape = listed.permutation = {};
    for (const HloSharding& form : {iota, listed}) {
      SCOPED_TRACE(ToString(form) + " seed " + std::to_string(seed));
      ASSERT_TRUE(Validate(form).ok());
      EXPECT_EQ(*ParseHloSharding(ToString(form)), form);
      EXPECT_EQ(*FromProto(ToProto(form)), form);
      const auto back = ToAnnotation(form, rank, mesh);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->sharding, sharding);
      EXPECT_EQ(back->manual, manual);
      EXPECT_EQ(back->unreduced, unreduced);
    }
  }
}

TEST(HloSharding, AnyBytesAreAShardingOrAnError) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const std::string good = ToProto(*ParseHloSharding(
      "{{devices=[2,1,2,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}, {manual}}"));
  const std::string text = "{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dims={manual,replicated}}";
  for (size_t n = 0; n < good.size(); ++n) (void)FromProto(good.substr(0, n));
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    std::string words = text;
    for (int k = 0; k < 3; ++k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
      words[random() % words.size()] = "{}[]()<=,T0123456789 amndevics_"[random() % 31];
    }
    if (const auto read = FromProto(bytes); read.ok()) {
      ++accepted;
      EXPECT_TRUE(Validate(*read).ok()) << "seed " << seed;
      EXPECT_EQ(*FromProto(ToProto(*read)), *read) << "seed " << seed;
    }
    if (const auto read = ParseHloSharding(words); read.ok()) {
      EXPECT_EQ(*ParseHloSharding(ToString(*read)), *read) << words;
      (void)TileStrides(*read);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(HloSharding, FaultsAreErrors) {
  const Mesh mesh = TwoByFour();
  for (const char* text :
       {"", "{", "{devices=[2,4]<=[7]}", "{devices=[2,4]<=[8]", "{devices=[0]<=[0]}", "{what}",
        "{devices=[8]<=[2,4]T(1,1)}", "{devices=[99999999999999]<=[8]}", "{maximal}"}) {
    EXPECT_EQ(ParseHloSharding(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  const char* third_version = "{mesh['x'=2,'y'=4], [{'x'}, {}]}";
  const absl::Status status = ParseHloSharding(third_version).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr(third_version));
  EXPECT_THAT(std::string(Read("{devices=[8]<=[8]}", 2, mesh).status().message()),
              HasSubstr("rank 2"));
  EXPECT_THAT(std::string(Read("{devices=[4]<=[4]}", 1, mesh).status().message()),
              HasSubstr("4 devices"));
  for (const char* text : {"{maximal device=8}", "{maximal device=99999999999}"}) {
    EXPECT_THAT(std::string(Read(text, 1, mesh).status().message()), HasSubstr("for 8 devices"));
  }
  EXPECT_TRUE(Read("{maximal device=7}", 1, mesh).ok());
}

TEST(HloSharding, AnyOrderOfDevicesIsTaken) {
  const Mesh mesh = TwoByFour();
  const auto read = Read("{devices=[2,4]1,0,2,3,4,5,7,6}", 2, mesh);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->sharding, (Sharding{{kX, kY}}));
  ASSERT_NE(read->order, nullptr);
  EXPECT_THAT(*read->order, ::testing::ElementsAre(1, 0, 2, 3, 4, 5, 7, 6));
  EXPECT_EQ(Hex(ToOpShardingBytes(read->sharding, mesh, read->order)),
            "08031a02020422080100020304050706");
}

}  // namespace
}  // namespace shardway::sharding
