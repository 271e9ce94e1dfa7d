#include "shardway/spmd/host_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class HostTransferTest : public testing::Test {
 protected:
  ir::Value* Token() {
    const ir::Type token = ir::Type::Token();
    return p_.b.Create(ir::OpKind::kCreateToken, {}, {&token, 1})->result();
  }

  // f32[8,6] from the host; with `annotation` split over x and y.
  ir::Op* Infeed(bool annotated) {
    ir::AttrDict attributes;
    ir::Set(attributes, "infeed_config", std::string("c"));
    if (annotated) {
      ir::SdySharding sharding;
      sharding.dims.resize(2);
      ir::Set(attributes, "sdy.sharding", ir::SdyPerValue{{sharding, ir::SdySharding()}});
    }
    ir::Value* token = Token();
    const ir::Type types[] = {TestProgram::F32({8, 6}), ir::Type::Token()};
    ir::Op* op = p_.b.Create(ir::OpKind::kInfeed, {&token, 1}, types, std::move(attributes));
    if (annotated) p_.Annotate(op->result(0), {{kX, kY}});
    return op;
  }

  TestProgram p_;
};

TEST_F(HostTransferTest, AnAnnotatedInfeedComesInTiles) {
  p_.Return({Infeed(true)->result(0)});
  const std::string text = p_.Text(Backend::kNative);
  EXPECT_THAT(text, HasSubstr("(tensor<4x2xf32>, !stablehlo.token)"));  // 6 over 4: padded
  EXPECT_THAT(text, HasSubstr("infeed_config = \"c\""));
  EXPECT_THAT(text, Not(HasSubstr("sdy.sharding")));
}

TEST_F(HostTransferTest, WithoutAnnotationEachDeviceIsFedTheWhole) {
  ir::Value* x = Infeed(false)->result(0);
  p_.Return({p_.Constrain(x, {{kX, {}}})});
  EXPECT_THAT(p_.Text(Backend::kNative), HasSubstr("(tensor<8x6xf32>, !stablehlo.token)"));
}

TEST_F(HostTransferTest, EveryDeviceSendsTheWhole) {
  ir::Value* x = p_.Argument({8, 6}, {{kX, {}}});
  ir::Value* operands[] = {x, Token()};
  const ir::Type token = ir::Type::Token();
  ir::AttrDict attributes;
  ir::Set(attributes, "outfeed_config", std::string("c"));
  p_.b.Create(ir::OpKind::kOutfeed, operands, {&token, 1}, std::move(attributes));
  p_.Return({x});
  const std::string text = p_.Text(Backend::kNative);
  EXPECT_THAT(text, HasSubstr("stablehlo.all_gather"));
  EXPECT_THAT(text, HasSubstr("(tensor<8x6xf32>, !stablehlo.token)"));
}

TEST_F(HostTransferTest, OneDeviceIsFedAndSendsTheOthersTheRest) {
  ir::Op* op = Infeed(false);
  ir::Set(op->attributes, std::string(kOnDevice), int64_t{3});
  p_.Return({p_.Constrain(op->result(0), {{kX, {}}})});
  EXPECT_THAT(p_.Collectives(Backend::kNative),
              ElementsAre(HasSubstr("collective_broadcast f32[8,6]")));
  EXPECT_THAT(p_.device.collectives[0].groups.MembersOf(0), ElementsAre(3, 0, 1, 2, 4, 5, 6, 7));
  const std::string text = p_.Text(Backend::kNative);
  EXPECT_THAT(text, HasSubstr("stablehlo.if"));
  EXPECT_THAT(text, HasSubstr("(tensor<8x6xf32>, !stablehlo.token)"));
  EXPECT_THAT(text, Not(HasSubstr("on_device")));
}

TEST_F(HostTransferTest, OneDeviceSends) {
  ir::Value* x = p_.Argument({8, 6}, {{kX, {}}});
  ir::Value* operands[] = {x, Token()};
  const ir::Type token = ir::Type::Token();
  ir::AttrDict attributes;
  ir::Set(attributes, "outfeed_config", std::string("c"));
  ir::Set(attributes, std::string(kOnDevice), int64_t{0});
  p_.b.Create(ir::OpKind::kOutfeed, operands, {&token, 1}, std::move(attributes));
  p_.Return({x});
  EXPECT_THAT(p_.Collectives(Backend::kNative), ElementsAre(HasSubstr("all_gather")));
  EXPECT_THAT(p_.Text(Backend::kNative), HasSubstr("stablehlo.if"));
}

TEST_F(HostTransferTest, CpuWorkersServeNone) {
  p_.Return({Infeed(true)->result(0)});
  p_.options.backend = Backend::kFfi;
  const auto made = Partition(p_.program, *p_.rules, p_.shardings, p_.options);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("io_callback"));
}

}  // namespace
}  // namespace shardway::spmd
