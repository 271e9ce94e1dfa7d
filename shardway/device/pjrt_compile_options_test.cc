#include "shardway/device/pjrt_compile_options.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

namespace shardway::device {
namespace {

using google::protobuf::UnknownFieldSet;

std::string Bytes(const UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

const std::string* Nested(const UnknownFieldSet& fields, int number) {
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == number) return &fields.field(i).length_delimited();
  }
  return nullptr;
}

TEST(PerDeviceCompileOptionsTest, IsOneReplicaOnePartitionPortable) {
  auto options = PerDeviceCompileOptions("");
  ASSERT_TRUE(options.ok());
  UnknownFieldSet parsed;
  ASSERT_TRUE(parsed.ParseFromString(*options));
  UnknownFieldSet build;
  ASSERT_TRUE(build.ParseFromString(*Nested(parsed, 3)));
  ASSERT_EQ(build.field_count(), 2);
  EXPECT_EQ(build.field(0).number(), 4);
  EXPECT_EQ(build.field(0).varint(), 1u);
  EXPECT_EQ(build.field(1).number(), 5);
  EXPECT_EQ(build.field(1).varint(), 1u);
}

TEST(PerDeviceCompileOptionsTest, KeepsDebugOptionsAndDropsTheMesh) {
  UnknownFieldSet user_build;
  user_build.AddVarint(4, 2);                      // num_replicas
  user_build.AddVarint(5, 4);                      // num_partitions
  user_build.AddVarint(6, 1);                      // use_spmd_partitioning
  user_build.AddLengthDelimited(9, "assignment");  // device_assignment
  user_build.AddLengthDelimited(3, "debug options");
  user_build.AddLengthDelimited(13, "environments");
  UnknownFieldSet user;
  user.AddLengthDelimited(1, "argument layouts");
  user.AddLengthDelimited(3, Bytes(user_build));
  user.AddVarint(4, 0);  // compile_portable_executable
  user.AddLengthDelimited(7, "override");
  auto options = PerDeviceCompileOptions(Bytes(user));
  ASSERT_TRUE(options.ok()) << options.status();

  UnknownFieldSet parsed;
  ASSERT_TRUE(parsed.ParseFromString(*options));
  EXPECT_EQ(Nested(parsed, 1), nullptr);
  EXPECT_EQ(*Nested(parsed, 7), "override");
  UnknownFieldSet build;
  ASSERT_TRUE(build.ParseFromString(*Nested(parsed, 3)));
  EXPECT_EQ(*Nested(build, 3), "debug options");
  EXPECT_EQ(*Nested(build, 13), "environments");
  EXPECT_EQ(build.field_count(), 4);
}

TEST(PerDeviceCompileOptionsTest, RefusesBytesThatAreNoMessage) {
  EXPECT_FALSE(PerDeviceCompileOptions("\xff\xff\xff").ok());
  UnknownFieldSet user;
  user.AddLengthDelimited(3, "\xff\xff\xff");
  EXPECT_FALSE(PerDeviceCompileOptions(Bytes(user)).ok());
}

}  // namespace
}  // namespace shardway::device
