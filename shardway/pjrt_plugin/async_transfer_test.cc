#include "shardway/pjrt_plugin/async_transfer.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "shardway/pjrt_plugin/api_fixture.h"

namespace shardway::pjrt_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Manager = PJRT_AsyncHostToDeviceTransferManager;

class AsyncTransferTest : public ApiTest {
 protected:
  // Buffers of f32[2] in a device's default memory.
  Manager* Create(int device, size_t count) {
    PJRT_Device_DefaultMemory_Args memory{.struct_size = PJRT_Device_DefaultMemory_Args_STRUCT_SIZE,
                                          .device = devices[device]};
    EXPECT_EQ(Code(api->PJRT_Device_DefaultMemory(&memory)), absl::StatusCode::kOk);
    const int64_t dims[] = {2};
    std::vector<PJRT_ShapeSpec> specs(count, {.struct_size = PJRT_ShapeSpec_STRUCT_SIZE,
                                              .dims = dims,
                                              .num_dims = 1,
                                              .element_type = PJRT_Buffer_Type_F32});
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args args{
        .struct_size = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args_STRUCT_SIZE,
        .client = client,
        .shape_specs = specs.data(),
        .num_shape_specs = specs.size(),
        .memory = memory.memory};
    EXPECT_EQ(Code(api->PJRT_Client_CreateBuffersForAsyncHostToDevice(&args)),
              absl::StatusCode::kOk);
    return args.transfer_manager;
  }
  absl::StatusCode Transfer(Manager* manager, int index, const void* data, int64_t offset,
                            int64_t size, bool last) {
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args args{
        .struct_size = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args_STRUCT_SIZE,
        .transfer_manager = manager,
        .buffer_index = index,
        .data = data,
        .offset = offset,
        .transfer_size = size,
        .is_last_transfer = last};
    const auto code = Code(api->PJRT_AsyncHostToDeviceTransferManager_TransferData(&args));
    if (code != absl::StatusCode::kOk) return code;
    EXPECT_TRUE(IsReady(args.done_with_h2d_transfer));
    Destroy(args.done_with_h2d_transfer);
    return code;
  }
  PJRT_Buffer* Retrieve(Manager* manager, int index) {
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args args{
        .struct_size = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args_STRUCT_SIZE,
        .transfer_manager = manager,
        .buffer_index = index};
    retrieve_code = Code(api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&args));
    return args.buffer_out;
  }
  void Destroy(Manager* manager) {
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args args{
        .struct_size = PJRT_AsyncHostToDeviceTransferManager_Destroy_Args_STRUCT_SIZE,
        .transfer_manager = manager};
    EXPECT_EQ(Code(api->PJRT_AsyncHostToDeviceTransferManager_Destroy(&args)),
              absl::StatusCode::kOk);
  }
  using ApiTest::Destroy;

  const float x_[2] = {1, 2};
  float back_[2] = {0, 0};
  absl::StatusCode retrieve_code = absl::StatusCode::kOk;
};

TEST_F(AsyncTransferTest, BytesComeInAnyOrderAndGoAsOne) {
  Manager* manager = Create(3, 2);
  PJRT_Buffer* buffer = Retrieve(manager, 1);
  PJRT_Event* ready = Ready(buffer);
  EXPECT_EQ(Transfer(manager, 1, &x_[1], 4, 4, false), absl::StatusCode::kOk);
  EXPECT_FALSE(IsReady(ready));
  EXPECT_THAT(log->TakeCalls(), IsEmpty());
  EXPECT_EQ(Transfer(manager, 1, &x_[0], 0, 4, true), absl::StatusCode::kOk);
  EXPECT_TRUE(IsReady(ready));
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[2] on 3, 1 distinct"));
  EXPECT_EQ(Read(buffer, back_, sizeof(back_)), absl::StatusCode::kOk);
  EXPECT_THAT(back_, ElementsAre(1, 2));
  Destroy(ready);
  Destroy(manager);
  log->TakeCalls();
  Destroy(buffer);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("free 1"));
}

TEST_F(AsyncTransferTest, ALaunchWaitsForItsArguments) {
  PJRT_LoadedExecutable* f = Compile(1, 1);
  std::vector<Manager*> managers;
  std::vector<PJRT_Buffer*> argument;
  for (int device = 0; device < 4; ++device) {
    managers.push_back(Create(device, 1));
    argument.push_back(Retrieve(managers.back(), 0));
  }
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (Manager* manager : managers) {
      EXPECT_EQ(manager->Transfer(0, x_, 0, sizeof(x_), true), absl::OkStatus());
    }
  });
  const Launched launched = Execute(f, {argument}, 1);
  late.join();
  ASSERT_EQ(launched.code, absl::StatusCode::kOk) << message;
  EXPECT_EQ(Read(launched.results[0][2], back_, sizeof(back_)), absl::StatusCode::kOk);
  EXPECT_THAT(back_, ElementsAre(1, 2));
  Destroy(launched);
  Destroy(argument);
  for (Manager* manager : managers) Destroy(manager);
  Destroy(f);
}

TEST_F(AsyncTransferTest, ErrorsReachWhoReads) {
  Manager* manager = Create(0, 2);
  PJRT_Buffer* failed = Retrieve(manager, 0);
  PJRT_Buffer* forgotten = Retrieve(manager, 1);
  PJRT_Event* ready = Ready(failed);
  const std::string text = "the file ended early";
  PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args args{
      .struct_size = PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args_STRUCT_SIZE,
      .transfer_manager = manager,
      .buffer_index = 0,
      .error_code = PJRT_Error_Code_DATA_LOSS,
      .error_message = text.data(),
      .error_message_size = text.size()};
  EXPECT_EQ(Code(api->PJRT_AsyncHostToDeviceTransferManager_SetBufferError(&args)),
            absl::StatusCode::kOk);
  EXPECT_EQ(Await(ready), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Read(failed, back_, sizeof(back_)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(message, text);
  EXPECT_EQ(Transfer(manager, 0, x_, 0, 8, true), absl::StatusCode::kFailedPrecondition);
  Destroy(manager);
  EXPECT_EQ(Read(forgotten, back_, sizeof(back_)), absl::StatusCode::kCancelled);
  EXPECT_THAT(log->TakeCalls(), IsEmpty());
  Destroy(ready);
  Destroy(failed);
  Destroy(forgotten);
}

TEST_F(AsyncTransferTest, UnretrievedBuffersAndDeletedOnesGo) {
  Manager* manager = Create(1, 2);
  PJRT_Buffer* deleted = Retrieve(manager, 0);
  Delete(deleted);
  Destroy(deleted);
  EXPECT_EQ(Transfer(manager, 0, x_, 0, 8, true), absl::StatusCode::kOk);
  EXPECT_THAT(log->TakeCalls(), IsEmpty()) << "nobody wants it";
  EXPECT_EQ(Transfer(manager, 1, x_, 0, 8, true), absl::StatusCode::kOk);
  Destroy(manager);
  EXPECT_THAT(log->TakeCalls(), ElementsAre("put 1 f32[2] on 1, 1 distinct", "free 1"));
}

TEST_F(AsyncTransferTest, WhatMakesNoSenseIsRefused) {
  Manager* manager = Create(2, 1);
  for (const auto& [offset, size] : {std::pair{-1, 4}, {0, 9}, {5, 4}, {9, 0}, {0, -1}}) {
    EXPECT_EQ(Transfer(manager, 0, x_, offset, size, false), absl::StatusCode::kInvalidArgument)
        << offset << " " << size;
  }
  EXPECT_EQ(Transfer(manager, 1, x_, 0, 8, true), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("buffer 1 of a transfer manager with 1 buffers"));
  PJRT_Buffer* buffer = Retrieve(manager, 0);
  EXPECT_EQ(retrieve_code, absl::StatusCode::kOk);
  Retrieve(manager, 0);
  EXPECT_EQ(retrieve_code, absl::StatusCode::kFailedPrecondition);
  PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args size{
      .struct_size = PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args_STRUCT_SIZE,
      .transfer_manager = manager};
  EXPECT_EQ(Code(api->PJRT_AsyncHostToDeviceTransferManager_BufferSize(&size)),
            absl::StatusCode::kOk);
  EXPECT_EQ(size.buffer_size, 8u);
  Destroy(manager);
  Destroy(buffer);
}

TEST_F(ApiTest, MemoryStatsAreTheSessions) {
  PJRT_Device_MemoryStats_Args args{.struct_size = PJRT_Device_MemoryStats_Args_STRUCT_SIZE,
                                    .device = devices[2]};
  EXPECT_EQ(Code(api->PJRT_Device_MemoryStats(&args)), absl::StatusCode::kOk);
  EXPECT_EQ(args.bytes_in_use, 102);
  EXPECT_TRUE(args.bytes_limit_is_set);
  EXPECT_EQ(args.bytes_limit, 1000);
  EXPECT_FALSE(args.peak_bytes_in_use_is_set);
}

}  // namespace
}  // namespace shardway::pjrt_plugin
