#include "shardway/collective/spec.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardway::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Spec AllReduce(int32_t site = 0) {
  Spec spec;
  spec.site = site;
  spec.reduction = Reduction::kSum;
  spec.operands = spec.results = {{ElementType::kF32, {128}}};
  spec.groups.mesh = {2, 4};
  spec.groups.axes = {0};
  spec.work_after_us = 1.5;
  spec.location = "train.py:12";
  return spec;
}

Spec Permute(int32_t site = 0) {
  Spec spec = AllReduce(site);
  spec.kind = Kind::kCollectivePermute;
  spec.reduction = Reduction::kNone;
  spec.groups.axes = {0, 1};
  spec.pairs = {{0, 1}, {1, 2}, {7, 0}};
  return spec;
}

Spec Ragged(int32_t site = 0) {
  Spec spec = AllReduce(site);
  spec.kind = Kind::kRaggedAllToAll;
  spec.reduction = Reduction::kNone;
  const Shaped index = {ElementType::kI32, {2}};
  spec.operands = {
      {ElementType::kBF16, {10, 3}}, {ElementType::kBF16, {12, 3}}, index, index, index, index};
  spec.results = {spec.operands[1]};
  return spec;
}

TEST(GroupsTest, AxesNameMembersInTheOrderListed) {
  Groups groups{.mesh = {2, 3, 2}, .axes = {0, 2}};
  EXPECT_EQ(groups.num_devices(), 12);
  EXPECT_EQ(groups.group_size(), 4);
  EXPECT_THAT(groups.MembersOf(9), ElementsAre(2, 3, 8, 9));
  groups.axes = {2, 0};
  EXPECT_THAT(groups.MembersOf(9), ElementsAre(2, 8, 3, 9));
  groups.axes = {};
  EXPECT_THAT(groups.MembersOf(9), ElementsAre(9));
}

TEST(DevicePairsTest, AreThePlacesInEveryGroup) {
  Spec spec = Permute();
  spec.groups = {.mesh = {2, 2, 2}, .axes = {2, 0}};
  spec.pairs = {{0, 1}, {1, 2}};
  ASSERT_TRUE(Validate(spec).ok());
  // Places along (2, 0) of the groups {0,4,1,5} and {2,6,3,7}.
  EXPECT_THAT(DevicePairs(spec),
              ElementsAre(std::pair(0, 4), std::pair(2, 6), std::pair(4, 1), std::pair(6, 3)));
}

TEST(GroupsTest, Lists) {
  Groups groups{.mesh = {6}, .lists = {{4, 0}, {1, 5}}};
  EXPECT_EQ(groups.group_size(), 2);
  EXPECT_THAT(groups.MembersOf(0), ElementsAre(4, 0));
  EXPECT_THAT(groups.MembersOf(5), ElementsAre(1, 5));
  EXPECT_THAT(groups.MembersOf(3), IsEmpty());
}

TEST(SpecTest, ToStringNamesKindShapesAndGroups) {
  EXPECT_EQ(AllReduce().ToString(), "all_reduce sum f32[128] over axes [0] of [2,4]");
  EXPECT_EQ(Permute().ToString(),
            "collective_permute f32[128] {0→1, 1→2, 7→0} over axes [0,1] of [2,4]");
  Spec shift = Permute();
  shift.groups.axes = {1};
  shift.pairs = {{0, 1}, {1, 2}, {2, 3}};
  EXPECT_EQ(shift.ToString(), "collective_permute f32[128] shift 1 over axes [1] of [2,4]");
  shift.pairs.emplace_back(3, 0);
  EXPECT_EQ(shift.ToString(), "collective_permute f32[128] rotate 1 over axes [1] of [2,4]");
  shift.pairs = {{3, 2}, {0, 3}, {1, 0}, {2, 1}};
  EXPECT_EQ(shift.ToString(), "collective_permute f32[128] rotate 3 over axes [1] of [2,4]");
}

TEST(SpecTest, FieldNameIsWhatOneLooksForInXlasText) {
  EXPECT_EQ(AllReduce().FieldName(), "all-reduce");
  EXPECT_EQ(Permute().FieldName(), "collective-permute");
}

TEST(SpecTest, BytesAndBack) {
  std::vector<Spec> specs = {AllReduce(0), Permute(1), Ragged(2), AllReduce(3)};
  specs[3].groups = {.mesh = {8}, .lists = {{0, 1, 2}, {5, 4}}};
  auto parsed = Parse(Serialize(specs));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, specs);
  EXPECT_TRUE(Parse(Serialize({})).ok());
}

// Each line breaks one rule of a valid specification.
TEST(ValidateTest, RefusesWhatIsInconsistent) {
  struct Case {
    std::string_view what;
    Spec spec;
    void (*break_it)(Spec&);
  };
  const Case cases[] = {
      {"result 0", AllReduce(), [](Spec& s) { s.results[0].dims[0] = 127; }},
      {"result 0", AllReduce(), [](Spec& s) { s.results[0].element = ElementType::kF16; }},
      {"reduction", AllReduce(), [](Spec& s) { s.reduction = Reduction::kNone; }},
      {"reduction", Permute(), [](Spec& s) { s.reduction = Reduction::kSum; }},
      {"'xor' of f32", AllReduce(), [](Spec& s) { s.reduction = Reduction::kXor; }},
      {"axis 2", AllReduce(), [](Spec& s) { s.groups.axes = {2}; }},
      {"twice", AllReduce(),
       [](Spec& s) {
         s.groups.axes = {0, 0};
       }},
      {"both", AllReduce(), [](Spec& s) { s.groups.lists = {{0}}; }},
      {"device 8", AllReduce(),
       [](Spec& s) {
         s.groups = {{2, 4}, {}, {{0, 8}}};
       }},
      {"two groups", AllReduce(),
       [](Spec& s) {
         s.groups = {{2, 4}, {}, {{0, 1}, {1}}};
       }},
      {"mesh", AllReduce(),
       [](Spec& s) {
         s.groups.mesh = {2, 0};
       }},
      {"mesh", AllReduce(),
       [](Spec& s) {
         s.groups.mesh = {1 << 19, 1 << 19};
       }},
      {"negative", AllReduce(), [](Spec& s) { s.operands[0].dims[0] = -1; }},
      {"larger", AllReduce(),
       [](Spec& s) {
         s.operands[0].dims = {1 << 30, 1 << 30};
       }},
      {"operands and", AllReduce(), [](Spec& s) { s.operands = s.results = {}; }},
      {"sends twice", Permute(),
       [](Spec& s) {
         s.pairs.push_back({0, 5});
       }},
      {"receives twice", Permute(),
       [](Spec& s) {
         s.pairs.push_back({5, 1});
       }},
      {"outside a group", Permute(),
       [](Spec& s) {
         s.pairs.push_back({5, 8});
       }},
      {"only a permute", AllReduce(),
       [](Spec& s) {
         s.pairs = {{0, 1}};
       }},
      {"operands and", Ragged(), [](Spec& s) { s.operands.pop_back(); }},
      {"rows", Ragged(), [](Spec& s) { s.operands[0].dims[1] = 4; }},
      {"one shape", Ragged(), [](Spec& s) { s.operands[3].dims[0] = 4; }},
      {"work_after_us", AllReduce(), [](Spec& s) { s.work_after_us = -1; }},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(Validate(c.spec).ok()) << Validate(c.spec);
    Spec broken = c.spec;
    c.break_it(broken);
    EXPECT_THAT(std::string(Validate(broken).message()), HasSubstr(c.what));
    EXPECT_FALSE(Parse(Serialize({broken})).ok()) << c.what;
  }
}

TEST(ValidateTest, ShapesOfEachKind) {
  Spec spec = AllReduce();
  spec.groups.axes = {1};
  spec.reduction = Reduction::kNone;
  spec.kind = Kind::kAllGather;
  spec.operands = {{ElementType::kF32, {3, 5}}};
  spec.dim0 = 1;
  spec.results = {{ElementType::kF32, {3, 20}}};
  EXPECT_TRUE(Validate(spec).ok());
  spec.kind = Kind::kAllToAll;
  spec.operands = {{ElementType::kF32, {3, 8}}};
  spec.dim1 = 0;
  spec.results = {{ElementType::kF32, {12, 2}}};
  EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  spec.operands[0].dims[1] = 6;
  EXPECT_THAT(std::string(Validate(spec).message()), HasSubstr("not divisible"));
  spec.kind = Kind::kReduceScatter;
  spec.reduction = Reduction::kSum;
  spec.operands = {{ElementType::kF32, {3, 8}}};
  spec.results = {{ElementType::kF32, {3, 2}}};
  EXPECT_TRUE(Validate(spec).ok());
  spec.dim0 = 2;
  EXPECT_FALSE(Validate(spec).ok());
}

TEST(ParseTest, MutatedBytesAreAnErrorOrAValidList) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<Spec> specs = {AllReduce(0), Permute(1), Ragged(2)};
  specs[0].groups = {.mesh = {8}, .lists = {{0, 1, 2}, {5, 4}}};
  const std::string bytes = Serialize(specs);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(Parse(bytes.substr(0, size)).ok());
  EXPECT_FALSE(Parse(bytes + '\0').ok());
  for (int i = 0; i < 50'000; ++i) {
    std::string mutated = bytes;
    for (int n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % mutated.size();
      switch (random() % 3) {
        case 0:
          mutated[at] = static_cast<char>(random());
          break;
        case 1:
          mutated.erase(at, 1 + random() % 3);
          break;
        default:
          mutated.insert(at, 1, static_cast<char>(random()));
      }
      if (mutated.empty()) break;
    }
    auto parsed = Parse(mutated);
    if (!parsed.ok()) continue;
    for (const Spec& spec : *parsed) EXPECT_TRUE(Validate(spec).ok());
    EXPECT_EQ(Serialize(*Parse(Serialize(*parsed))), Serialize(*parsed));
  }
}

}  // namespace
}  // namespace shardway::collective
