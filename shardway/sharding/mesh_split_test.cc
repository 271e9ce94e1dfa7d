#include "shardway/sharding/mesh_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/sharding/sdy_sharding.h"

namespace shardway::sharding {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<std::vector<std::string>>;

class MeshSplitTest : public ::testing::Test {
 protected:
  MeshSplitTest() : main_(module_.AddFunction("main")), b_(&module_, main_->body) {
    module_.meshes.emplace_back("mesh", ir::SdyMesh{{{"x", 2}, {"y", 4}}, {}});
    x_ = module_.AddArgument(main_->body,
                             ir::Type::Tensor(ElementType::kF32, std::vector<int64_t>{8, 8, 3}));
  }
  std::string Fault(std::string_view mesh, const Dims& dims) {
    const auto result = MeshSplit(b_, x_, mesh, dims);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  }

  ir::Module module_;
  ir::Function* main_;
  ir::Builder b_;
  ir::Value* x_;
};

TEST_F(MeshSplitTest, Annotates) {
  const auto y = MeshSplit(b_, x_, "mesh", Dims{{"y"}, {}, {"x"}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)->type, x_->type);
  const auto& written = *(*y)->def->Find("sharding")->get_if<ir::SdySharding>();
  const Mesh mesh = *Mesh::Make(8, std::vector<Stride>{{2, 4}, {4, 1}});
  const auto read = SdyMeshes(&module_, &mesh).ToAnnotation(written, 3);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->sharding, (Sharding{{AxisList{1, 2}, {}, AxisList{0}}}));
}

TEST_F(MeshSplitTest, FaultsNameValueAndAxis) {
  EXPECT_THAT(Fault("other", {{}, {}, {}}), HasSubstr("@other"));
  EXPECT_THAT(Fault("mesh", {{"x"}}), HasSubstr("1 entries for 3 dimensions"));
  EXPECT_THAT(Fault("mesh", {{"z"}, {}, {}}), HasSubstr("no axis \"z\""));
  EXPECT_THAT(Fault("mesh", {{"x"}, {"x"}, {}}), HasSubstr("\"x\" is used twice"));
  EXPECT_THAT(Fault("mesh", {{"z"}, {}, {}}), HasSubstr("8x8x3xf32"));
}

}  // namespace
}  // namespace shardway::sharding
