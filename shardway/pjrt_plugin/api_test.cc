#include "shardway/pjrt_plugin/api.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <string_view>

#include "shardway/base/raw_enum.h"
#include "shardway/pjrt_plugin/api_fixture.h"

namespace shardway::pjrt_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ApiTest, EveryEntryIsThere) {
  // The functions are the pointers behind the version; none may be null.
  const auto* entries = reinterpret_cast<void* const*>(&api->PJRT_Error_Destroy);
  const auto* end =
      reinterpret_cast<void* const*>(reinterpret_cast<const char*>(api) + PJRT_Api_STRUCT_SIZE);
  for (const auto* entry = entries; entry < end; ++entry) {
    EXPECT_NE(*entry, nullptr) << "entry " << entry - entries;
  }
  PJRT_Buffer_CopyRawToHost_Args args{.struct_size = PJRT_Buffer_CopyRawToHost_Args_STRUCT_SIZE};
  EXPECT_EQ(Code(api->PJRT_Buffer_CopyRawToHost(&args)), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(message, HasSubstr("PJRT_Buffer_CopyRawToHost"));
}

TEST_F(ApiTest, AdvertisesItsStableHloVersion) {
  PJRT_Plugin_Attributes_Args args{.struct_size = PJRT_Plugin_Attributes_Args_STRUCT_SIZE};
  EXPECT_EQ(Code(api->PJRT_Plugin_Attributes(&args)), absl::StatusCode::kOk);
  std::map<std::string, std::vector<int64_t>> lists;
  for (size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& value = args.attributes[i];
    if (value.type != PJRT_NamedValue_kInt64List) continue;
    lists[std::string(value.name, value.name_size)] = {value.int64_array_value,
                                                       value.int64_array_value + value.value_size};
  }
  EXPECT_THAT(lists["stablehlo_current_version"], ElementsAre(1, 17, 0));
}

TEST_F(ApiTest, DevicesSayWhereTheyAre) {
  ASSERT_EQ(devices.size(), 4);
  PJRT_Device_GetDescription_Args get{.struct_size = PJRT_Device_GetDescription_Args_STRUCT_SIZE,
                                      .device = devices[3]};
  EXPECT_EQ(Code(api->PJRT_Device_GetDescription(&get)), absl::StatusCode::kOk);
  PJRT_DeviceDescription_Attributes_Args list{
      .struct_size = PJRT_DeviceDescription_Attributes_Args_STRUCT_SIZE,
      .device_description = get.device_description};
  EXPECT_EQ(Code(api->PJRT_DeviceDescription_Attributes(&list)), absl::StatusCode::kOk);
  bool seen = false;
  for (size_t i = 0; i < list.num_attributes; ++i) {
    const PJRT_NamedValue& value = list.attributes[i];
    if (std::string_view(value.name, value.name_size) != "slice_index") continue;
    EXPECT_EQ(value.int64_value, 1);
    seen = true;
  }
  EXPECT_TRUE(seen);
}

TEST_F(ApiTest, ExtensionsAreChained) {
  std::vector<int> types;
  for (const PJRT_Extension_Base* e = api->extension_start; e != nullptr; e = e->next) {
    EXPECT_GT(e->struct_size, sizeof(PJRT_Extension_Base));
    types.push_back(RawEnum(e->type));  // newer than the header names
  }
  EXPECT_THAT(types, ElementsAre(4, 19, 5));
}

TEST_F(ApiTest, SerializedProgramsComeBack) {
  PJRT_LoadedExecutable* f = Compile(1, 1);
  PJRT_LoadedExecutable_GetExecutable_Args get{
      .struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE, .loaded_executable = f};
  EXPECT_EQ(Code(api->PJRT_LoadedExecutable_GetExecutable(&get)), absl::StatusCode::kOk);
  PJRT_Executable_Serialize_Args serialize{
      .struct_size = PJRT_Executable_Serialize_Args_STRUCT_SIZE, .executable = get.executable};
  EXPECT_EQ(Code(api->PJRT_Executable_Serialize(&serialize)), absl::StatusCode::kOk);
  const std::string bytes(serialize.serialized_bytes, serialize.serialized_bytes_size);
  serialize.serialized_executable_deleter(serialize.serialized_executable);

  PJRT_Executable_DeserializeAndLoad_Args load{
      .struct_size = PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE,
      .client = client,
      .serialized_executable = bytes.data(),
      .serialized_executable_size = bytes.size()};
  EXPECT_EQ(Code(api->PJRT_Executable_DeserializeAndLoad(&load)), absl::StatusCode::kOk);
  EXPECT_EQ(log->compiled_with.num_partitions, 4);
  Destroy(load.loaded_executable);
  load.serialized_executable_size = 3;
  EXPECT_EQ(Code(api->PJRT_Executable_DeserializeAndLoad(&load)),
            absl::StatusCode::kInvalidArgument);

  PJRT_Executable_Destroy_Args destroy{.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
                                       .executable = get.executable};
  EXPECT_EQ(Code(api->PJRT_Executable_Destroy(&destroy)), absl::StatusCode::kOk);
  Destroy(f);
}

TEST_F(ApiTest, OptimizedProgramIsAskedForInTwoSteps) {
  PJRT_LoadedExecutable* f = Compile(0, 0);
  PJRT_LoadedExecutable_GetExecutable_Args get{
      .struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE, .loaded_executable = f};
  EXPECT_EQ(Code(api->PJRT_LoadedExecutable_GetExecutable(&get)), absl::StatusCode::kOk);
  PJRT_Program program{.struct_size = PJRT_Program_STRUCT_SIZE};
  PJRT_Executable_OptimizedProgram_Args args{
      .struct_size = PJRT_Executable_OptimizedProgram_Args_STRUCT_SIZE,
      .executable = get.executable,
      .program = &program};
  EXPECT_EQ(Code(api->PJRT_Executable_OptimizedProgram(&args)), absl::StatusCode::kOk);
  std::string text(program.code_size, ' ');
  program.code = text.data();
  EXPECT_EQ(Code(api->PJRT_Executable_OptimizedProgram(&args)), absl::StatusCode::kOk);
  EXPECT_EQ(text, "module @jit_f {}");
  EXPECT_EQ(std::string_view(program.format, program.format_size), "mlir");
  PJRT_Executable_Destroy_Args destroy{.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
                                       .executable = get.executable};
  EXPECT_EQ(Code(api->PJRT_Executable_Destroy(&destroy)), absl::StatusCode::kOk);
  Destroy(f);
}

}  // namespace
}  // namespace shardway::pjrt_plugin
