#include "shardway/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardway::program {
namespace {

using ::testing::HasSubstr;

ProgramPtr TwoDeviceProgram() {
  auto program = std::make_shared<compile::Partitioned>();
  program->name = "jit_f";
  program->num_partitions = 2;
  program->parameters = {
      {.element = ElementType::kF32, .global_dims = {8, 4}, .local_dims = {4, 4}}};
  program->results = {{.element = ElementType::kF32, .global_dims = {8}, .local_dims = {4}},
                      {.element = ElementType::kI1, .global_dims = {}, .local_dims = {}}};
  return program;
}

class PlaceTest : public ::testing::Test {
 protected:
  topology::SliceTable slices_{*topology::Topology::Create({.devices = 4})};
};

TEST_F(PlaceTest, WorksOutLayoutsAndBytes) {
  const topology::Slice* slice = *slices_.Intern({2, 3});
  auto placed = *Place(TwoDeviceProgram(), slice);
  EXPECT_EQ(placed->parameters[0]->shard_bytes, 64);
  EXPECT_EQ(placed->result_bytes, 4 * 4 + 1);
  EXPECT_EQ(placed->results[0]->ToString(), "f32[4] on devices 2,3");
  EXPECT_TRUE(placed->CheckArgument(0, *placed->parameters[0]).ok());
}

TEST_F(PlaceTest, RefusesASliceOfAnotherSize) {
  EXPECT_THAT(std::string(Place(TwoDeviceProgram(), *slices_.Intern({0})).status().message()),
              HasSubstr("compiled for 2 devices"));
}

TEST_F(PlaceTest, ArgumentsMustAgreeInTypeShapeAndPlace) {
  const topology::Slice* slice = *slices_.Intern({0, 1});
  auto placed = *Place(TwoDeviceProgram(), slice);
  ArrayLayout layout = *placed->parameters[0];
  EXPECT_TRUE(placed->CheckArgument(0, layout).ok());
  layout.slice = *slices_.Intern({1, 0});
  EXPECT_THAT(std::string(placed->CheckArgument(0, layout).message()),
              HasSubstr("is f32[4,4] on devices 1,0, the program takes f32[4,4] on devices 0,1"));
  layout = *placed->parameters[0];
  layout.element = ElementType::kF16;
  EXPECT_FALSE(placed->CheckArgument(0, layout).ok());
}

}  // namespace
}  // namespace shardway::program
