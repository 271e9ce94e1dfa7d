#include "shardway/compile/hidden_constants.h"

#include <gtest/gtest.h>

#include "shardway/ir/builder.h"

namespace shardway::compile {
namespace {

TEST(HoistConstants, BigOnesBecomeParametersOnce) {
  ir::Module module;
  ir::Function* main = module.AddFunction("main");
  ir::Builder b(&module, main->body);
  const ir::Type big = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{200, 100});
  const ir::Type small = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{4});
  const ir::Constant bytes = ir::Constant::Copy(big, std::string(big.num_bytes(), 'a'), false);
  ir::Value* first = b.Constant(bytes);
  ir::Value* second = b.Constant(bytes);
  ir::Value* kept = b.Constant(ir::Constant::Copy(small, std::string(16, 'b'), false));
  ir::Value* splat = b.Splat(big, 1.0);
  ir::Value* sum = b.Binary(ir::OpKind::kAdd, b.Binary(ir::OpKind::kAdd, first, second), splat);
  ir::Value* results[] = {sum, kept};
  b.FuncReturn(results);

  const auto constants = HoistConstants(module);
  ASSERT_EQ(constants.size(), 1u);
  EXPECT_EQ(constants[0].bytes.size(), 80000u);
  EXPECT_EQ(constants[0].dims, (std::vector<int64_t>{200, 100}));
  ASSERT_EQ(main->arguments().size(), 1u);
  EXPECT_EQ(sum->def->operand(0)->def->operand(0), main->arguments()[0]);
  EXPECT_EQ(sum->def->operand(0)->def->operand(1), main->arguments()[0]);
  int left = 0;
  for (const ir::Op* op : main->body->ops) left += op->kind == ir::OpKind::kConstant;
  EXPECT_EQ(left, 2);
}

}  // namespace
}  // namespace shardway::compile
