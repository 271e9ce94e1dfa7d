#include "shardway/spmd/send_recv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SendRecvTest : public testing::Test {
 protected:
  ir::Value* Token() {
    const ir::Type token = ir::Type::Token();
    return p_.b.Create(ir::OpKind::kCreateToken, {}, {&token, 1})->result();
  }
  static ir::AttrDict Transfer(std::vector<int64_t> pairs) {
    ir::AttrDict attributes;
    ir::Set(attributes, "channel_id", int64_t{1});
    ir::Set(attributes, "channel_type", int64_t{1});
    ir::Set(attributes, "source_target_pairs", std::move(pairs));
    return attributes;
  }
  void At(int line) { p_.b.set_location(p_.module->AddLocation({"", "pipe.py", line, 0})); }

  // Returns its token.
  ir::Value* Send(ir::Value* x, std::vector<int64_t> pairs) {
    ir::Value* operands[] = {x, Token()};
    const ir::Type token = ir::Type::Token();
    return p_.b.Create(ir::OpKind::kSend, operands, {&token, 1}, Transfer(std::move(pairs)))
        ->result();
  }
  ir::Value* Recv(ir::Value* token, std::vector<int64_t> pairs) {
    const ir::Type types[] = {TestProgram::F32({4}), ir::Type::Token()};
    return p_.b.Create(ir::OpKind::kRecv, {&token, 1}, types, Transfer(std::move(pairs)))->result();
  }
  ir::Value* Replicated() { return p_.Argument({4}, Sharding::Replicated(1)); }

  // Ends the program; what pairing says.
  absl::Status Pair(ir::Value* result) {
    p_.main->result_types.push_back(result->type);
    p_.main->result_attrs.resize(1);
    p_.b.FuncReturn({&result, 1});
    p_.program.manual.resize(p_.module->num_values());
    return PairTransfers(p_.program);
  }
  std::string Message(ir::Value* result) { return std::string(Pair(result).message()); }
  int Count(ir::OpKind kind) const {
    int count = 0;
    for (const ir::Op* op : p_.main->body->ops) count += op->kind == kind;
    return count;
  }

  TestProgram p_;
};

TEST_F(SendRecvTest, ARecvIsAPermuteOfWhatWasSent) {
  ir::Value* x = Replicated();
  ir::Value* y = Recv(Send(x, {0, 1, 1, 2}), {0, 1, 1, 2});
  ASSERT_TRUE(Pair(y).ok());
  EXPECT_EQ(y->def->kind, ir::OpKind::kCollectivePermute);
  EXPECT_THAT(y->def->operands, ElementsAre(x));
  EXPECT_THAT(y->def->IntList("source_target_pairs"), ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(Count(ir::OpKind::kSend) + Count(ir::OpKind::kRecv), 0);
}

TEST_F(SendRecvTest, TokensArePassedOn) {
  ir::Value* x = Replicated();
  ir::Value* sent[] = {Send(x, {0, 1}), Send(p_.b.Binary(ir::OpKind::kAdd, x, x), {1, 0})};
  const ir::Type token = ir::Type::Token();
  ir::Value* both = p_.b.Create(ir::OpKind::kAfterAll, sent, {&token, 1})->result();
  both = p_.b.Create(ir::OpKind::kOptimizationBarrier, {&both, 1}, {&token, 1})->result();
  ir::Value* there = Recv(both, {0, 1});
  ir::Value* back = Recv(there->def->result(1), {1, 0});
  ASSERT_TRUE(Pair(p_.b.Binary(ir::OpKind::kAdd, there, back)).ok());
  EXPECT_THAT(there->def->operands, ElementsAre(x));
  EXPECT_EQ(back->def->operand(0)->def->kind, ir::OpKind::kAdd);
}

// 0 → 1 → 2: what 1 sends is made of what it receives.
TEST_F(SendRecvTest, WhatIsReceivedIsSentOn) {
  ir::Value* x = Replicated();
  ir::Value* y = Recv(Token(), {0, 1, 1, 2});
  ir::Value* z = p_.b.Binary(ir::OpKind::kMultiply, y, x);
  Send(z, {0, 1, 1, 2});
  ASSERT_TRUE(Pair(z).ok());
  EXPECT_EQ(Count(ir::OpKind::kCollectivePermute), 2);
  EXPECT_EQ(Count(ir::OpKind::kMultiply), 3);
  const ir::Op* first = y->def->operand(0)->def->operand(0)->def->operand(0)->def->operand(0)->def;
  EXPECT_EQ(first->kind, ir::OpKind::kConstant);
}

TEST_F(SendRecvTest, WhatAllTakePartInCannotBeBetween) {
  At(3);
  ir::Value* y = Recv(Token(), {0, 1});
  At(4);
  ir::Value* z =
      p_.b.Create(ir::OpKind::kCollectivePermute, {&y, 1}, {&y->type, 1}, Transfer({0, 1, 1, 0}))
          ->result();
  At(5);
  Send(z, {0, 1});
  EXPECT_THAT(Message(z), AllOf(HasSubstr("pipe.py:3"), HasSubstr("pipe.py:4"),
                                HasSubstr("pipe.py:5"), HasSubstr("none could begin")));
}

TEST_F(SendRecvTest, NobodySends) {
  ir::Value* x = Replicated();
  At(3);
  ir::Value* token = Send(x, {0, 1});
  At(4);
  EXPECT_THAT(Message(Recv(token, {1, 0})),
              AllOf(HasSubstr("nothing sends for the"), HasSubstr("recv of {1→0} at pipe.py:4"),
                    HasSubstr("send of {0→1} at pipe.py:3")));
}

TEST_F(SendRecvTest, NobodyReceives) {
  ir::Value* x = Replicated();
  At(3);
  Send(x, {0, 1});
  EXPECT_THAT(Message(x), HasSubstr("nothing receives the send of {0→1} at pipe.py:3"));
}

TEST_F(SendRecvTest, SeveralToChooseFrom) {
  ir::Value* x = Replicated();
  At(3);
  Send(x, {0, 1});
  At(4);
  Send(x, {0, 1});
  At(5);
  EXPECT_THAT(Message(Recv(Token(), {0, 1})),
              AllOf(HasSubstr("pipe.py:3"), HasSubstr("pipe.py:4"), HasSubstr("pipe.py:5")));
}

TEST_F(SendRecvTest, ACircleIsRefused) {
  ir::Value* x = Replicated();
  EXPECT_THAT(Message(Recv(Send(x, {0, 1, 1, 0}), {0, 1, 1, 0})), HasSubstr("in a circle"));
}

}  // namespace
}  // namespace shardway::spmd
