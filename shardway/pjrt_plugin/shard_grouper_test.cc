// One message per put, copy and free, whatever the number of shards.
#include <gmock/gmock.h>

#include <numeric>

#include "shardway/pjrt_plugin/api_fixture.h"

namespace shardway::pjrt_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using ShardGrouperTest = ApiTest;

TEST_F(ShardGrouperTest, ShardsOnAllDevicesAreOnePut) {
  const float x[] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<PJRT_Buffer*> buffers;
  for (int d = 0; d < 4; ++d) buffers.push_back(Put(x + 2 * d, {2}, d));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[2] on 0,1,2,3, 4 distinct"));
  float back[2];
  EXPECT_EQ(Read(buffers[3], back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(6, 7));
  Destroy(buffers);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("read 1:3", "free 1"));
}

TEST_F(ShardGrouperTest, EqualBytesTravelOnce) {
  const float x[] = {1, 2};
  Destroy(PutOnAll(x, {2}));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[2] on 0,1,2,3, 1 distinct", "free 1"));
}

TEST_F(ShardGrouperTest, AnAddressUsedAgainForOtherBytesIsNoReplica) {
  float x[] = {1, 2};
  const PutOptions during_call{.semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall};
  PJRT_Buffer* a = Put(x, {2}, 0, during_call);
  x[0] = 3;
  PJRT_Buffer* b = Put(x, {2}, 1, during_call);
  x[0] = 5;
  float back[2];
  EXPECT_EQ(Read(a, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(1, 2));
  EXPECT_EQ(Read(b, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(3, 2));
  Destroy({a, b});
}

TEST_F(ShardGrouperTest, ADeviceTwiceOrAnotherShapeOpensTheNextGroup) {
  const float x[] = {1, 2};
  PJRT_Buffer* a = Put(x, {2}, 0);
  PJRT_Buffer* b = Put(x, {2}, 0);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[2] on 0, 1 distinct"));
  PJRT_Buffer* c = Put(x, {1, 2}, 1);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 2 f32[2] on 0, 1 distinct"));
  Destroy(Ready(c));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 3 f32[1,2] on 1, 1 distinct"));
  Destroy({a, b, c});
}

TEST_F(ShardGrouperTest, WhatNobodyWantsIsNeverSent) {
  const float x[] = {1, 2};
  PJRT_Buffer* a = Put(x, {2}, 0);
  PJRT_Buffer* b = Put(x, {2}, 1);
  Delete(a);
  EXPECT_TRUE(IsDeleted(a));
  Destroy({a, b});
  Destroy(PutOnAll(x, {1}));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[1] on 0,1,2,3, 1 distinct", "free 1"));
}

TEST_F(ShardGrouperTest, LargeBytesAreReadWhenTheGroupCloses) {
  std::vector<float> x(100'000, 1.0f);
  PJRT_Event* done;
  PJRT_Buffer* a = Put(x.data(), {100'000}, 2, {.done = &done});
  EXPECT_FALSE(IsReady(done));
  EXPECT_THAT(log->TakeCalls(), IsEmpty());
  int fired = 0;
  PJRT_Event_OnReady_Args on_ready{.struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE,
                                   .event = done,
                                   .callback =
                                       [](PJRT_Error* error, void* count) {
                                         EXPECT_EQ(error, nullptr);
                                         ++*static_cast<int*>(count);
                                       },
                                   .user_arg = &fired};
  EXPECT_EQ(Code(api->PJRT_Event_OnReady(&on_ready)), absl::StatusCode::kOk);
  Destroy(Ready(a));
  EXPECT_TRUE(IsReady(done));
  EXPECT_EQ(fired, 1);
  Destroy(done);
  Destroy(a);
}

TEST_F(ShardGrouperTest, LargeBytesValidOnlyDuringTheCallAreCopied) {
  std::vector<float> x(100'000, 1.0f);
  PJRT_Buffer* a =
      Put(x.data(), {100'000}, 2, {.semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall});
  std::fill(x.begin(), x.end(), 2.0f);
  std::vector<float> back(x.size());
  EXPECT_EQ(Read(a, back.data(), back.size() * sizeof(float)), absl::StatusCode::kOk);
  EXPECT_EQ(std::accumulate(back.begin(), back.end(), 0.0), 100'000);
  Destroy(a);
}

TEST_F(ShardGrouperTest, StridesOfAnyKind) {
  const float x[] = {0, 1, 2, 3, 4, 5};  // as 3x2
  float back[6];
  PJRT_Buffer* transposed = Put(x, {2, 3}, 0, {.strides = {4, 8}});
  EXPECT_EQ(Read(transposed, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(0, 2, 4, 1, 3, 5));
  PJRT_Buffer* reversed = Put(x + 5, {6}, 0, {.strides = {-4}});
  EXPECT_EQ(Read(reversed, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(5, 4, 3, 2, 1, 0));
  PJRT_Buffer* repeated = Put(x + 3, {6}, 0, {.strides = {0}});
  EXPECT_EQ(Read(repeated, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(3, 3, 3, 3, 3, 3));
  Destroy({transposed, reversed, repeated});
}

TEST_F(ShardGrouperTest, ReadsIntoAnotherLayout) {
  const float x[] = {0, 1, 2, 3, 4, 5};
  PJRT_Buffer* a = Put(x, {2, 3}, 0);
  const int64_t column_major[] = {0, 1};
  PJRT_Buffer_MemoryLayout layout{.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
                                  .type = PJRT_Buffer_MemoryLayout_Type_Tiled};
  layout.tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                  .minor_to_major = column_major,
                  .minor_to_major_size = 2};
  float back[6];
  EXPECT_EQ(Read(a, back, sizeof(back), &layout), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(Read(a, back, 4), absl::StatusCode::kInvalidArgument);
  Destroy(a);
}

TEST_F(ShardGrouperTest, AFailedPutIsAnErrorWhereItIsUsed) {
  const float x[] = {1, 2};
  log->put_status = absl::ResourceExhaustedError("the arena is full");
  std::vector<PJRT_Buffer*> buffers = PutOnAll(x, {2});
  float back[2];
  EXPECT_EQ(Read(buffers[0], back, sizeof(back)), absl::StatusCode::kResourceExhausted);
  PJRT_Event* ready = Ready(buffers[1]);
  EXPECT_EQ(Await(ready), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(message, "the arena is full");
  Destroy(ready);
  PJRT_Buffer* copy = CopyTo(buffers[0], 1);
  EXPECT_EQ(Read(copy, back, sizeof(back)), absl::StatusCode::kResourceExhausted);
  Destroy(buffers);
  Destroy(copy);
  EXPECT_THAT(log->TakeCalls(), IsEmpty());
}

TEST_F(ShardGrouperTest, AWholeArrayIsOneCopy) {
  const float x[] = {1, 2};
  const std::vector<PJRT_Buffer*> a = PutOnAll(x, {2});
  std::vector<PJRT_Buffer*> b;
  for (int d = 0; d < 4; ++d) b.push_back(CopyTo(a[d], 3 - d));
  EXPECT_THAT(log->TakeCalls(),
              ElementsAre("put 1 f32[2] on 0,1,2,3, 1 distinct", "copy 2 of 1 to 3,2,1,0"));
  Destroy(a);
  Destroy(b);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 1", "free 2"));
}

TEST_F(ShardGrouperTest, OneShardToManyDevices) {
  const float x[] = {1, 2};
  PJRT_Buffer* a = Put(x, {2}, 0);
  std::vector<PJRT_Buffer*> b = {CopyTo(a, 1), CopyTo(a, 2), CopyTo(a, 3)};
  Destroy(a);  // the copies still want it
  Destroy(Ready(b[0]));
  EXPECT_THAT(log->TakeCalls(),
              ElementsAre("put 1 f32[2] on 0, 1 distinct", "assemble 2 of 1:0,1:0,1:0",
                          "copy 3 of 2 to 1,2,3", "free 2", "free 1"));
  Destroy(b);
}

TEST_F(ShardGrouperTest, ACopyOfAPendingCopy) {
  const float x[] = {1, 2};
  PJRT_Buffer* a = Put(x, {2}, 0);
  PJRT_Buffer* b = CopyTo(a, 1);
  PJRT_Buffer* c = CopyTo(b, 2);
  float back[2];
  EXPECT_EQ(Read(c, back, sizeof(back)), absl::StatusCode::kOk);
  EXPECT_THAT(back, ElementsAre(1, 2));
  Destroy({a, b, c});
}

TEST_F(ShardGrouperTest, AnotherKindOfMemoryOnTheSameDevicesMovesNothing) {
  const float x[] = {1, 2};
  const std::vector<PJRT_Buffer*> a = PutOnAll(x, {2});
  std::vector<PJRT_Buffer*> b;
  for (int d = 0; d < 4; ++d) b.push_back(CopyTo(a[d], d, 1));
  EXPECT_THAT(log->TakeCalls(),
              ElementsAre("put 1 f32[2] on 0,1,2,3, 1 distinct", "assemble 2 of 1:0,1:1,1:2,1:3"));
  Destroy(a);
  Destroy(b);
}

}  // namespace
}  // namespace shardway::pjrt_plugin
