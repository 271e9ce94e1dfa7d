#include "shardway/ir/artifact_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/test_artifacts.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"

namespace shardway::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Module> Read(const std::string& name) {
  auto module = ReadArtifact(TestArtifact(name));
  EXPECT_TRUE(module.ok()) << name << ": " << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

const Op* FindOp(const Region& region, OpKind kind) {
  for (const Op* op : region.ops) {
    if (op->kind == kind) return op;
    for (const Region* inner : op->regions) {
      if (const Op* found = FindOp(*inner, kind)) return found;
    }
  }
  return nullptr;
}

const Op& OpOf(const Module& module, OpKind kind) {
  for (const Function* function : module.functions()) {
    if (const Op* found = FindOp(*function->body, kind)) return *found;
  }
  ADD_FAILURE() << "no " << OpKindName(kind);
  static const auto* const none = new Op{};
  return *none;
}

TEST(ArtifactReader, EveryFixtureReadsAndIsWellFormed) {
  EXPECT_GE(TestArtifacts().size(), 30u);
  for (const auto& [name, bytes] : TestArtifacts()) {
    const auto module = Read(name);
    ASSERT_NE(module, nullptr);
    EXPECT_TRUE(Verify(*module).ok()) << name << ": " << Verify(*module);
    EXPECT_GT(WriteText(*module).size(), 100u);
  }
}

TEST(ArtifactReader, VersionsDoNotShow) {
  TextOptions options;
  options.locations = Locations::kInline;
  const std::string newest = WriteText(*Read("psum@1.17.0"), options);
  for (const char* older : {"psum@1.13.7", "psum@1.9.0", "psum@1.0.0", "psum@0.14.0"}) {
    EXPECT_EQ(WriteText(*Read(older), options), newest) << older;
  }
}

TEST(ArtifactReader, ManualComputation) {
  const auto module = Read("psum@1.17.0");
  ASSERT_NE(module->FindMesh("mesh"), nullptr);
  EXPECT_EQ(module->FindMesh("mesh")->axes, (std::vector<SdyMesh::Axis>{{"x", 4}, {"y", 2}}));
  const Op& manual = OpOf(*module, OpKind::kSdyManualComputation);
  EXPECT_THAT(manual.Find("manual_axes")->get_if<SdyManualAxes>()->axes, ElementsAre("x", "y"));
  const auto* in = manual.Find("in_shardings")->get_if<SdyPerValue>();
  ASSERT_EQ(in->shardings.size(), 1u);
  EXPECT_EQ(in->shardings[0].mesh_name, "mesh");
  EXPECT_EQ(in->shardings[0].dims[0].axes[0].name, "x");
  const Op& sum = OpOf(*module, OpKind::kAllReduce);
  EXPECT_EQ(sum.Int("channel_id"), 1);
  EXPECT_TRUE(sum.Bool("use_global_device_ids"));
  EXPECT_THAT(sum.Find("replica_groups")->get_if<Constant>()->Ints(),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_EQ(sum.location->file, "ir_programs.py");
  EXPECT_GT(sum.location->line, 0);
}

TEST(ArtifactReader, NormalForm) {
  const auto conv = Read("conv-dilated@1.17.0");
  const Op& c = OpOf(*conv, OpKind::kConvolution);
  EXPECT_THAT(c.IntList("window_strides"), ElementsAre(2, 1));
  EXPECT_THAT(c.IntList("padding"), ElementsAre(1, 2, 0, -1));
  EXPECT_THAT(c.IntList("input_spatial_dimensions"), ElementsAre(2, 3));
  EXPECT_EQ(c.Find("precision_config"), nullptr);
  EXPECT_NE(c.Find("window_reversal")->get_if<std::vector<bool>>(), nullptr);

  const auto dot = Read("dot-algorithm@1.17.0");
  const Op& d = OpOf(*dot, OpKind::kDotGeneral);
  EXPECT_THAT(d.IntList("lhs_contracting_dimensions"), ElementsAre(1));
  EXPECT_EQ(d.Find("lhs_precision_type")->get_if<Type>()->element, ElementType::kBF16);
  EXPECT_EQ(d.Int("num_primitive_operations"), 3);

  const auto plain = Read("twin-mlp_grads@1.17.0");
  EXPECT_EQ(OpOf(*plain, OpKind::kDotGeneral).Find("accumulation_type"), nullptr);
  EXPECT_EQ(OpOf(*plain, OpKind::kDotGeneral).Find("precision_config"), nullptr);

  const auto accuracy = Read("accuracy@1.17.0");
  EXPECT_THAT(
      OpOf(*accuracy, OpKind::kExponential).Find("result_accuracy")->get_if<RawAttr>()->text,
      HasSubstr("ulps = 2"));
  EXPECT_EQ(OpOf(*Read("sort-pairs@1.17.0"), OpKind::kSort).Int("dimension", -1), 0);
}

TEST(ArtifactReader, ShardingsAndDonation) {
  const auto module = Read("donated@1.17.0");
  EXPECT_NE(Find(module->main()->arg_attrs[0], "tf.aliasing_output"), nullptr);
  const auto open = Read("unreduced@1.17.0");
  EXPECT_THAT(WriteText(*open), HasSubstr("unreduced={\"x\"}"));
  TextOptions plain;
  plain.sdy = false;
  EXPECT_THAT(WriteText(*open, plain), Not(HasSubstr("sdy.mesh")));
}

TEST(ArtifactReader, ConstantsPointIntoTheArtifact) {
  const auto bytes = TestArtifact("special-floats@1.17.0");
  auto module = ReadArtifact(bytes);
  ASSERT_TRUE(module.ok());
  bool inside = false;
  for (const Op* op : (*module)->main()->body->ops) {
    const Attribute* value = op->Find("value");
    if (op->kind != OpKind::kConstant || value->get_if<Constant>()->splat) continue;
    const char* data = value->get_if<Constant>()->bytes.data();
    inside = inside || (data > bytes->data() && data < bytes->data() + bytes->size());
  }
  EXPECT_TRUE(inside);
}

TEST(ArtifactReader, ErrorsSayWhatAndWhere) {
  auto read = [](std::string bytes) {
    return ReadArtifact(std::make_shared<const std::string>(std::move(bytes))).status();
  };
  EXPECT_EQ(read("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(read("module {}").message(), HasSubstr("magic number"));
  const std::string good = *TestArtifact("psum@1.17.0");
  EXPECT_THAT(read(good.substr(0, good.size() / 2)).message(), HasSubstr("at byte"));
  std::string newer = good;
  const size_t version = newer.find("v1.17.0");
  for (const char* known : {"v1.18.0", "v1.19.0", "v1.20.0"}) {
    newer.replace(version, 7, known);
    EXPECT_TRUE(read(newer).ok()) << known << ": " << read(newer);
  }
  newer.replace(version, 7, "v1.21.0");
  EXPECT_EQ(read(newer).code(), absl::StatusCode::kUnimplemented);
  std::string foreign = good;
  foreign.replace(foreign.find("StableHLO_v"), 11, "MLIR_v\1\1\1\1\1");
  EXPECT_EQ(read(foreign).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shardway::ir
