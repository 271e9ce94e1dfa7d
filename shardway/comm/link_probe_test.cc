#include "shardway/comm/link_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/comm/test_cluster.h"

namespace shardway::comm {
namespace {

using ::testing::HasSubstr;

constexpr Duration kDeadline = std::chrono::seconds(60);

LinkProbe Probe(LaunchId launch, int device, int other) {
  LinkProbe probe;
  probe.launch = launch;
  probe.devices[0] = device;
  probe.devices[1] = other;
  return probe;
}

void ExpectPlausible(const absl::StatusOr<topology::Link>& link) {
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_GT(link->latency_s, 0);
  EXPECT_LT(link->latency_s, 10);
  EXPECT_GT(link->bytes_per_s, 1e3);
}

TEST(MeasureLink, BetweenDevicesOfAHost) {
  TestCluster cluster(1, 4);
  ExpectPlausible(MeasureLink(cluster.host(0), Probe(1, 2, 3), kDeadline));
  ExpectPlausible(MeasureLink(cluster.host(0), Probe(2, 3, 0), kDeadline));
}

TEST(MeasureLink, BetweenHosts) {
  TestCluster cluster(3, 2);
  absl::StatusOr<topology::Link> there, here;
  std::thread other([&] { there = MeasureLink(cluster.host(2), Probe(1, 0, 4), kDeadline); });
  here = MeasureLink(cluster.host(0), Probe(1, 0, 4), kDeadline);
  other.join();
  ExpectPlausible(here);
  ExpectPlausible(there);
}

TEST(MeasureLink, ProgramsRunAfterwards) {
  TestCluster cluster(1, 2);
  ExpectPlausible(MeasureLink(cluster.host(0), Probe(1, 0, 1), kDeadline));
  collective::Spec sum;
  sum.reduction = collective::Reduction::kSum;
  sum.operands = sum.results = {{ElementType::kI32, {1}}};
  sum.groups = {.mesh = {2}, .axes = {0}, .lists = {}};
  cluster.Prepare({sum});
  cluster.Begin(2);
  int32_t in[] = {3, 4}, out[2] = {};
  cluster.Run([&](int d) { EXPECT_TRUE(cluster.Collective(2, d, 0, {&in[d]}, {&out[d]}).ok()); });
  cluster.End(2);
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[1], 7);
}

TEST(MeasureLink, AHostThatDoesNotComeEndsIt) {
  TestCluster cluster(2, 1);
  const auto link = MeasureLink(cluster.host(0), Probe(1, 0, 1), std::chrono::milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(link.status())) << link.status();
  EXPECT_THAT(std::string(link.status().message()), HasSubstr("between devices 0 and 1"));
  // Who comes late learns of it, and need not wait.
  const auto late = MeasureLink(cluster.host(1), Probe(1, 0, 1), kDeadline);
  EXPECT_FALSE(late.ok());
}

TEST(MeasureLink, DevicesThatAreNotHereAreRefused) {
  TestCluster cluster(2, 1);
  EXPECT_TRUE(
      absl::IsInvalidArgument(MeasureLink(cluster.host(0), Probe(1, 1, 7), kDeadline).status()));
}

}  // namespace
}  // namespace shardway::comm
