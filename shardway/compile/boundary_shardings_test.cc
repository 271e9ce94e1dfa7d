#include "shardway/compile/boundary_shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/builder.h"

namespace shardway::compile {
namespace {

using ::testing::HasSubstr;

struct OneArgument {
  OneArgument() {
    ir::Function* main = module.AddFunction("main");
    const ir::Type type = ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8, 8});
    ir::Value* x = module.AddArgument(main->body, type);
    main->result_types = {type};
    ir::Builder(&module, main->body).FuncReturn({&x, 1});
  }
  ir::Module module;
};

TEST(BoundaryShardings, AreReadInShardysNotation) {
  OneArgument p;
  const ir::SdyMesh mesh = *ParseMesh("x=2,y=4");
  ASSERT_TRUE(SetBoundaryShardings(p.module, mesh, "[{x, y:(2)2}, {?}]", "-").ok());
  const ir::Attribute* a = ir::Find(p.module.main()->arg_attrs[0], "sdy.sharding");
  ASSERT_NE(a, nullptr);
  const auto& sharding = *a->get_if<ir::SdySharding>();
  ASSERT_EQ(sharding.dims.size(), 2u);
  EXPECT_EQ(sharding.dims[0].axes[0], (ir::SdyAxisRef{"x", {}}));
  EXPECT_EQ(sharding.dims[0].axes[1], (ir::SdyAxisRef{"y", {{2, 2}}}));
  EXPECT_TRUE(sharding.dims[0].closed);
  EXPECT_FALSE(sharding.dims[1].closed);
  EXPECT_TRUE(p.module.main()->result_attrs[0].empty());
}

TEST(BoundaryShardings, DimensionsHavePriorities) {
  OneArgument p;
  const ir::SdyMesh mesh = *ParseMesh("x=2,y=4");
  const absl::Status status =
      SetBoundaryShardings(p.module, mesh, "[{x,?}p1, {?} p20]", "[{y}p0,{}]");
  ASSERT_TRUE(status.ok()) << status;
  const auto dims = [](const ir::AttrDict& attributes) {
    return ir::Find(attributes, "sdy.sharding")->get_if<ir::SdySharding>()->dims;
  };
  const auto argument = dims(p.module.main()->arg_attrs[0]);
  EXPECT_EQ(argument[0].priority, 1);
  EXPECT_FALSE(argument[0].closed);
  EXPECT_EQ(argument[1].priority, 20);
  const auto result = dims(p.module.main()->result_attrs[0]);
  EXPECT_EQ(result[0].priority, 0);
  EXPECT_EQ(result[1].priority, std::nullopt);
}

TEST(BoundaryShardings, FaultsAreErrors) {
  OneArgument p;
  const ir::SdyMesh mesh = *ParseMesh("x=2");
  for (const char* text :
       {"[", "[{x}", "[{x]", "{x}", "[{x:(0)2}]", "[{x:2}]", "[{x y}]", "[{,}]", "[{?,x}]",
        "[{?,?}]", "[{x,}]", "[{x},]", "[,]", "[{x,?}p]", "[{x}q1]", "[{}p1]", "[p1{x}]"}) {
    EXPECT_EQ(SetBoundaryShardings(p.module, mesh, text, "").code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(std::string(SetBoundaryShardings(p.module, mesh, "- -", "").message()),
              HasSubstr("2 shardings for the 1 arguments"));
}

TEST(BoundaryShardings, MeshesThatAreNone) {
  for (const char* text : {"", "x", "x=", "x=0", "x=-1", "x=2,x=2", "=2", "x=99999999999999999999",
                           "x=1048576,y=2", "x=2,"}) {
    EXPECT_EQ(ParseMesh(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace shardway::compile
