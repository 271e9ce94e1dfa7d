#include "shardway/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/topology/slice.h"

namespace shardway::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TopologyTest, DeviceIdsAreIslandMajorThenHost) {
  const Topology topology = *Topology::Create({.islands = 2, .hosts = 3, .devices = 4});
  EXPECT_EQ(topology.num_hosts(), 6);
  EXPECT_EQ(topology.num_devices(), 24);
  const Device device = topology.DeviceAt(17);
  EXPECT_EQ(device.island, 1);
  EXPECT_EQ(device.host, 1);
  EXPECT_EQ(device.local, 1);
  EXPECT_EQ(topology.HostOf(17), 4);
  EXPECT_THAT(topology.DevicesOfHost(4), ElementsAre(16, 17, 18, 19));
  EXPECT_EQ(topology.DescribeHost(4), "host 1 of island 1 (devices 16-19)");
}

TEST(TopologyTest, ImpossibleShapesAreErrors) {
  EXPECT_FALSE(Topology::Create({.islands = 0}).ok());
  EXPECT_FALSE(Topology::Create({.hosts = -1}).ok());
  EXPECT_FALSE(Topology::Create({.islands = 1 << 20, .hosts = 1 << 20, .devices = 1}).ok());
}

TEST(SliceTableTest, TheSameDevicesInTheSameOrderAreOneSlice) {
  const Topology topology = *Topology::Create({.islands = 2, .hosts = 1, .devices = 4});
  SliceTable table(topology);
  const Slice* all = *table.Intern({7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_THAT(all->hosts, ElementsAre(0, 1));
  EXPECT_EQ(*table.Intern({7, 6, 5, 4, 3, 2, 1, 0}), all);
  const Slice* other = *table.Intern({5, 4});
  EXPECT_NE(other, all);
  EXPECT_THAT(other->hosts, ElementsAre(1));
  EXPECT_EQ(other->index, 1);
}

TEST(SliceTableTest, ADeviceMayBeThereTwice) {
  SliceTable table(*Topology::Create({.hosts = 2, .devices = 4}));
  const Slice* slice = *table.Intern({5, 5, 1});
  EXPECT_THAT(slice->devices, ElementsAre(5, 5, 1));
  EXPECT_THAT(slice->hosts, ElementsAre(0, 1));
}

TEST(SliceTableTest, BadListsAreErrorsThatNameTheDevice) {
  SliceTable table(*Topology::Create({.devices = 2}));
  EXPECT_THAT(std::string(table.Intern({0, 2}).status().message()), HasSubstr("no device 2"));
  EXPECT_FALSE(table.Intern({}).ok());
  EXPECT_FALSE(table.Intern({-1}).ok());
}

}  // namespace
}  // namespace shardway::topology
