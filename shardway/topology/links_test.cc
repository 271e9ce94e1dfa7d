#include "shardway/topology/links.h"

#include "gtest/gtest.h"

namespace shardway::topology {
namespace {

constexpr Link kMemory{2e-6, 4e9};

TEST(Links, WhatIsNearlyAsFastIsAsCheap) {
  // Two measurements of one machine: neither the noise of one nor of the other makes a price.
  for (const double noise : {0.4, 1.0, 1.7, 2.9}) {
    const LinkPrices prices =
        PricesOf({kMemory, Link{4e-6 * noise, 4e9 / noise}, Link{2e-6, 4e9 * noise}});
    EXPECT_EQ(prices.between_hosts, (LinkPrice{1, 1})) << noise;
    EXPECT_EQ(prices.between_islands, (LinkPrice{1.01, 1.01})) << noise;
  }
}

TEST(Links, PricesArePowersOfTwo) {
  // 25 Gbit/s and 30 us between hosts; 1 Gbit/s and 1 ms between islands.
  const LinkPrices prices = PricesOf({kMemory, Link{30e-6, 3.1e9}, Link{1e-3, 0.125e9}});
  EXPECT_EQ(prices.between_hosts, (LinkPrice{16, 1}));
  EXPECT_EQ(prices.between_islands, (LinkPrice{512, 32}));
}

TEST(Links, IslandsAreNeverCheaperThanHosts) {
  const LinkPrices prices = PricesOf({kMemory, Link{1e-3, 0.1e9}, Link{2e-6, 4e9}});
  EXPECT_EQ(prices.between_hosts, (LinkPrice{512, 32}));
  EXPECT_EQ(prices.between_islands, (LinkPrice{512 * 1.01, 32 * 1.01}));
}

TEST(Links, TheNearestThatIsThereIsTheUnit) {
  EXPECT_EQ(PricesOf({std::nullopt, kMemory, Link{20e-6, 0.4e9}}).between_islands,
            (LinkPrice{8, 8}));
  EXPECT_EQ(PricesOf({std::nullopt, kMemory, std::nullopt}).between_hosts, (LinkPrice{1, 1}));
  EXPECT_EQ(PricesOf({std::nullopt, std::nullopt, kMemory}).between_islands,
            (LinkPrice{1.01, 1.01}));
  EXPECT_EQ(PricesOf({}), LinkPrices{});
  // What is assumed of islands is no less than what was measured of hosts.
  EXPECT_EQ(PricesOf({kMemory, Link{200e-6, 0.1e9}, std::nullopt}).between_islands,
            (LinkPrice{128, 32}));
}

TEST(Links, NonsenseIsNoPrice) {
  EXPECT_EQ(PricesOf({Link{0, 0}, Link{0, 0}, Link{1, 0}}).between_hosts, (LinkPrice{1, 1}));
}

TEST(Links, TextComesBack) {
  const LinkPrices prices{{16, 1}, {512, 32}};
  EXPECT_EQ(prices.ToString(), "hosts=16:1,islands=512:32");
  EXPECT_EQ(*ParseLinkPrices(prices.ToString()), prices);
  EXPECT_EQ(*ParseLinkPrices(""), LinkPrices{});
  EXPECT_EQ(*ParseLinkPrices("islands=8:2.5"), (LinkPrices{{1, 1}, {8, 2.5}}));
}

TEST(Links, BadTextSaysWhatIsGood) {
  for (const char* text : {"island=4:4", "islands=4", "islands=4:0.5", "hosts=:", "islands=nan:1",
                           "islands=1e12:1", "hosts=8:8", "4:4", "islands=2:2:2", "="}) {
    const auto read = ParseLinkPrices(text);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << text;
    EXPECT_NE(read.status().message().find("hosts=C:B,islands=C:B"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shardway::topology
