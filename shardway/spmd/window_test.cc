// What windowed operators send, for both back ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shardway/spmd/test_program.h"

namespace shardway::spmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ints = std::vector<int64_t>;

class Window : public TestProgram {
 public:
  ir::Value* Scalar(double value) { return b.Splat(ir::Type::Scalar(ElementType::kF32), value); }
  void AddBody(ir::Op* op, ir::OpKind kind) {
    ir::Region* region = module->AddRegion(op);
    const ir::Type f32 = ir::Type::Scalar(ElementType::kF32);
    ir::Value* x = module->AddArgument(region, f32);
    ir::Value* y = module->AddArgument(region, f32);
    ir::Builder body(module.get(), region);
    ir::Value* result =
        kind == ir::OpKind::kCompare ? body.Compare("GE", x, y) : body.Binary(kind, x, y);
    body.Return({&result, 1});
  }
  ir::Value* ReduceWindow(ir::Value* v, ir::Value* init, ir::OpKind kind, Ints window, Ints strides,
                          Ints padding, Ints result) {
    ir::AttrDict attributes;
    ir::Set(attributes, "window_dimensions", std::move(window));
    ir::Set(attributes, "window_strides", std::move(strides));
    ir::Set(attributes, "base_dilations", Ints{1, 1});
    ir::Set(attributes, "window_dilations", Ints{1, 1});
    ir::Set(attributes, "padding", std::move(padding));
    ir::Op* op =
        b.Create(ir::OpKind::kReduceWindow, {v, init}, {F32(result)}, std::move(attributes));
    AddBody(op, kind);
    return op->result();
  }
  // One spatial dimension: image [b, s, f], kernel [s, i, o], result [b, s, o].
  ir::Value* Convolution(ir::Value* image, ir::Value* kernel, Ints padding, Ints result,
                         int64_t groups = 1, int64_t batch_groups = 1) {
    ir::AttrDict attributes;
    ir::Set(attributes, "input_batch_dimension", int64_t{0});
    ir::Set(attributes, "input_feature_dimension", int64_t{2});
    ir::Set(attributes, "input_spatial_dimensions", Ints{1});
    ir::Set(attributes, "kernel_input_feature_dimension", int64_t{1});
    ir::Set(attributes, "kernel_output_feature_dimension", int64_t{2});
    ir::Set(attributes, "kernel_spatial_dimensions", Ints{0});
    ir::Set(attributes, "output_batch_dimension", int64_t{0});
    ir::Set(attributes, "output_feature_dimension", int64_t{2});
    ir::Set(attributes, "output_spatial_dimensions", Ints{1});
    ir::Set(attributes, "window_strides", Ints{1});
    ir::Set(attributes, "lhs_dilation", Ints{1});
    ir::Set(attributes, "rhs_dilation", Ints{1});
    ir::Set(attributes, "padding", std::move(padding));
    ir::Set(attributes, "feature_group_count", groups);
    ir::Set(attributes, "batch_group_count", batch_groups);
    return b
        .Create(ir::OpKind::kConvolution, {image, kernel}, {F32(result)}, std::move(attributes))
        ->result();
  }
  // The same list for both back ends.
  std::vector<std::string> Sent(ir::Value* v, Sharding sharding) {
    Return({Constrain(v, std::move(sharding))});
    auto ffi = Collectives(Backend::kFfi);
    EXPECT_EQ(ffi, Collectives(Backend::kNative));
    return ffi;
  }
};

TEST(ReduceWindow, TakesTheEdgesOfItsNeighbours) {
  Window p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  ir::Value* lowest = p.Scalar(-std::numeric_limits<double>::infinity());
  ir::Value* y =
      p.ReduceWindow(x, lowest, ir::OpKind::kMaximum, {3, 1}, {1, 1}, {1, 1, 0, 0}, {16, 4});
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}),
              ElementsAre(HasSubstr("collective_permute f32[1,4] shift -1 over axes [1]"),
                          HasSubstr("collective_permute f32[1,4] shift 1 over axes [1]")));
  EXPECT_THAT(p.Text(Backend::kNative), HasSubstr("stablehlo.collective_permute"));
}

TEST(ReduceWindow, PoolsThatDivideTheTileSendNothing) {
  Window p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  ir::Value* y =
      p.ReduceWindow(x, p.Scalar(0), ir::OpKind::kAdd, {2, 1}, {2, 1}, {0, 0, 0, 0}, {8, 4});
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}), IsEmpty());
}

TEST(ReduceWindow, ACumulativeSumGathersOneRowOfEachPart) {
  Window p;
  ir::Value* x = p.Argument({18, 4}, Sharding{{kY, {}}});
  ir::Value* y =
      p.ReduceWindow(x, p.Scalar(0), ir::OpKind::kAdd, {18, 1}, {1, 1}, {17, 0, 0, 0}, {18, 4});
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}), ElementsAre(HasSubstr("all_gather f32[1,4]")));
  EXPECT_THAT(p.Text(Backend::kNative), HasSubstr("stablehlo.all_gather"));
}

TEST(Convolution, ExchangesEdgesOfASplitImage) {
  Window p;
  ir::Value* image = p.Argument({2, 16, 3}, Sharding{{{}, kY, {}}});
  ir::Value* kernel = p.Argument({3, 3, 5}, Sharding{{{}, {}, {}}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 16, 5});
  EXPECT_THAT(p.Sent(y, Sharding{{{}, kY, {}}}),
              ElementsAre(HasSubstr("collective_permute f32[2,1,3]"),
                          HasSubstr("collective_permute f32[2,1,3]")));
  // The ends get the zeros that a permute gives who receives nothing.
  EXPECT_EQ(p.Text(Backend::kFfi).find("select"), std::string::npos);
}

TEST(Convolution, SlicesOffWhatNegativePaddingDrops) {
  Window p;
  ir::Value* image = p.Argument({2, 16, 3}, Sharding{{kX, {}, {}}});
  ir::Value* kernel = p.Argument({3, 3, 5}, Sharding{{{}, {}, {}}});
  ir::Value* y = p.Convolution(image, kernel, {-2, 1}, {2, 13, 5});
  p.Return({p.Constrain(y, Sharding{{kX, {}, {}}})});
  EXPECT_THAT(p.Text(Backend::kNative), AllOf(HasSubstr("start_indices = array<i64: 0, 2, 0>"),
                                              HasSubstr("padding = dense<[[0, 1]]>")));
}

TEST(Convolution, WithAKernelAsLongAsTheImageSumsPartialResults) {
  // As in the gradient of a kernel: image and kernel are split alike, the result is small.
  Window p;
  ir::Value* image = p.Argument({2, 16, 3}, Sharding{{{}, kY, {}}});
  ir::Value* kernel = p.Argument({16, 3, 5}, Sharding{{kY, {}, {}}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 3, 5});
  EXPECT_THAT(p.Sent(y, Sharding{{{}, {}, {}}}),
              ElementsAre(HasSubstr("collective_permute f32[2,1,3]"),
                          HasSubstr("collective_permute f32[2,1,3]"),
                          HasSubstr("all_reduce sum f32[2,3,5]")));
}

TEST(Convolution, MixesBatchSpaceAndInputFeatures) {
  Window p;
  ir::Value* image = p.Argument({2, 16, 8}, Sharding{{kX, {1}, {2}}});
  ir::Value* kernel = p.Argument({3, 8, 5}, Sharding{{{}, {2}, {}}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 16, 5});
  EXPECT_THAT(p.Sent(y, Sharding{{kX, {1}, {}}}),
              ElementsAre(HasSubstr("collective_permute f32[1,1,4]"),
                          HasSubstr("all_reduce sum f32[1,8,5]")));
}

TEST(Convolution, GroupsSplitWithTheirFeatures) {
  Window p;
  ir::Value* image = p.Argument({2, 16, 8}, Sharding{{{}, {}, kY}});
  ir::Value* kernel = p.Argument({3, 1, 16}, Sharding{{{}, {}, kY}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 16, 16}, /*groups=*/8);
  EXPECT_THAT(p.Sent(y, Sharding{{{}, {}, kY}}), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("feature_group_count = 2"));
}

TEST(Convolution, BatchGroupsSplitWithTheirResults) {
  Window p;
  ir::Value* image = p.Argument({8, 16, 3}, Sharding{{kY, {}, {}}});
  ir::Value* kernel = p.Argument({3, 3, 8}, Sharding{{{}, {}, kY}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 16, 8}, 1, /*batch_groups=*/4);
  EXPECT_THAT(p.Sent(y, Sharding{{{}, {}, kY}}), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("batch_group_count = 1"));
}

// Of windows of three.
ir::Value* SelectAndScatter(Window& p, ir::Value* x, ir::Value* sources) {
  ir::AttrDict attributes;
  ir::Set(attributes, "window_dimensions", Ints{3, 1});
  ir::Set(attributes, "window_strides", Ints{1, 1});
  ir::Set(attributes, "padding", Ints{0, 0, 0, 0});
  ir::Op* op = p.b.Create(ir::OpKind::kSelectAndScatter, {x, sources, p.Scalar(0)}, {x->type},
                          std::move(attributes));
  p.AddBody(op, ir::OpKind::kCompare);
  p.AddBody(op, ir::OpKind::kAdd);
  return op->result();
}

TEST(SelectAndScatter, TakesTheWindowsThatTouchItsTile) {
  Window p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{kY, {}}});
  ir::Value* sources = p.Argument({14, 4}, Sharding{{kY, {}}});
  ir::Value* y = SelectAndScatter(p, x, sources);
  // Two rows of the operand from either side, two sources from the part before.
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}), ElementsAre(HasSubstr("collective_permute f32[2,4]"),
                                                         HasSubstr("collective_permute f32[2,4]"),
                                                         HasSubstr("collective_permute f32[2,4]")));
}

// ---- of tensors that every device holds whole (cut_whole.h) ----

TEST(CutWhole, APartOfAConvolutionTakesItsStretchOfTheImage) {
  Window p;
  ir::Value* image = p.Argument({2, 16, 3}, Sharding{{{}, {}, {}}});
  ir::Value* kernel = p.Argument({3, 3, 5}, Sharding{{{}, {}, {}}});
  ir::Value* y = p.Convolution(image, kernel, {1, 1}, {2, 16, 5});
  EXPECT_THAT(p.Sent(y, Sharding{{{}, kY, {}}}), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("(tensor<2x6x3xf32>, tensor<3x3x5xf32>)"));
}

TEST(CutWhole, APoolToo) {
  Window p;
  ir::Value* x = p.Argument({64, 4}, Sharding{{{}, {}}});
  ir::Value* y =
      p.ReduceWindow(x, p.Scalar(0), ir::OpKind::kAdd, {3, 1}, {2, 1}, {1, 1, 0, 0}, {32, 4});
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}), IsEmpty());
  EXPECT_THAT(p.Text(Backend::kFfi), HasSubstr("(tensor<17x4xf32>, tensor<f32>)"));
}

// A part of a cumulative sum is made of all that came before.
TEST(CutWhole, NotACumulativeSum) {
  Window p;
  ir::Value* x = p.Argument({18, 4}, Sharding{{{}, {}}});
  ir::Value* y =
      p.ReduceWindow(x, p.Scalar(0), ir::OpKind::kAdd, {18, 1}, {1, 1}, {17, 0, 0, 0}, {18, 4});
  EXPECT_THAT(p.Sent(y, Sharding{{kY, {}}}), IsEmpty());
}

TEST(CutWhole, AnOperandWithoutTheSourcesThatAreSplit) {
  Window p;
  ir::Value* x = p.Argument({16, 4}, Sharding{{{}, {}}});
  ir::Value* sources = p.Argument({14, 4}, Sharding{{kY, {}}});
  EXPECT_THAT(p.Sent(SelectAndScatter(p, x, sources), Sharding{{kY, {}}}),
              ElementsAre(HasSubstr("collective_permute f32[2,4]")));
}

}  // namespace
}  // namespace shardway::spmd
