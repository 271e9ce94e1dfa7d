#include "shardway/pjrt_plugin/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/pjrt_plugin/compile_options.pb.h"

namespace shardway::pjrt_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompileOptionsTest, LogicalIdsAreReplicaMajor) {
  CompileOptionsProto proto;
  auto* build = proto.mutable_executable_build_options();
  build->set_num_replicas(2);
  build->set_num_partitions(3);
  build->set_use_shardy_partitioner(true);
  build->add_allow_spmd_sharding_propagation_to_output(true);
  build->add_allow_spmd_sharding_propagation_to_output(false);
  auto* assignment = build->mutable_device_assignment();
  assignment->set_replica_count(2);
  assignment->set_computation_count(3);
  for (int p = 0; p < 3; ++p) {
    auto* devices = assignment->add_computation_devices();
    devices->add_replica_device_ids(p);      // replica 0
    devices->add_replica_device_ids(7 - p);  // replica 1
  }
  const auto options = ParseCompileOptions(proto.SerializeAsString(), 8);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->devices, ElementsAre(0, 1, 2, 7, 6, 5));
  EXPECT_THAT(options->allow_propagation_to_results, ElementsAre(true, false));
  EXPECT_TRUE(options->allow_propagation_to_parameters.empty());
  EXPECT_TRUE(options->use_shardy);

  DeviceAssignmentProto back;
  ASSERT_TRUE(back.ParseFromString(SerializeDeviceAssignment(*options)));
  EXPECT_EQ(back.SerializeAsString(), assignment->SerializeAsString());
}

TEST(CompileOptionsTest, WithoutAnAssignmentTheFirstDevices) {
  CompileOptionsProto proto;
  proto.mutable_executable_build_options()->set_num_partitions(2);
  const auto options = ParseCompileOptions(proto.SerializeAsString(), 8);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->num_replicas, 1);
  EXPECT_THAT(options->devices, ElementsAre(0, 1));
}

// JAX's debug options hold a map, which its processes write in different orders.
TEST(CompileOptionsTest, EqualOptionsAreEqualBytes) {
  const std::vector<std::string> entries = {
      std::string("\xaa\x16\x06\x0a\x01\x61\x12\x01\x31"),  // field 357: {"a": "1"}
      std::string("\xaa\x16\x06\x0a\x01\x62\x12\x01\x32"),
      std::string("\xaa\x16\x06\x0a\x01\x63\x12\x01\x33"),
  };
  const std::string unknown = "\xf0\x7d\x07";  // field 2014, which we don't know
  const auto options = [&](std::vector<int> order) {
    std::string debug = unknown;
    for (int i : order) debug += entries[i];
    std::string build = "\x1a" + std::string(1, static_cast<char>(debug.size())) + debug;
    const std::string all = "\x1a" + std::string(1, static_cast<char>(build.size())) + build;
    return ParseCompileOptions(all, 8)->xla_options;
  };
  EXPECT_EQ(options({0, 1, 2}), options({2, 0, 1}));
  EXPECT_NE(options({0, 1, 2}), options({0, 1}));
  EXPECT_THAT(options({0}), HasSubstr(unknown));
}

TEST(CompileOptionsTest, WhatDoesNotFitIsAnError) {
  EXPECT_EQ(ParseCompileOptions("\x1a\x7f", 8).status().code(), absl::StatusCode::kInvalidArgument);
  CompileOptionsProto proto;
  auto* build = proto.mutable_executable_build_options();
  build->set_num_partitions(int64_t{1} << 62);
  EXPECT_EQ(ParseCompileOptions(proto.SerializeAsString(), 8).status().code(),
            absl::StatusCode::kInvalidArgument);
  build->set_num_partitions(1);
  auto* devices = build->mutable_device_assignment()->add_computation_devices();
  devices->add_replica_device_ids(8);
  EXPECT_THAT(ParseCompileOptions(proto.SerializeAsString(), 8).status().message(),
              HasSubstr("a program for device 8: the cluster has 8 devices"));
  devices->set_replica_device_ids(0, 3);
  build->set_num_partitions(2);
  *build->mutable_device_assignment()->add_computation_devices() = *devices;
  EXPECT_THAT(ParseCompileOptions(proto.SerializeAsString(), 8).status().message(),
              HasSubstr("names device 3 twice"));
}

}  // namespace
}  // namespace shardway::pjrt_plugin
