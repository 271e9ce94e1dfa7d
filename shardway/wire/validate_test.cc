#include "shardway/wire/validate.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace shardway::wire {
namespace {

using ::testing::HasSubstr;

constexpr SessionLimits kLimits = {.num_devices = 4, .arena_bytes = 1 << 20};

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

absl::Status ValidateClient(const std::string& text) {
  return Validate(Parse<ClientMessage>(text), kLimits);
}

struct Case {
  const char* text;
  const char* field;  // named by the error
};

TEST(ValidateTest, GoodClientMessages) {
  for (const char* text : {
           "hello { protocol: 1 client_name: 'pid 1' }",
           "put { seq: 1 array: 1 element: 16 shard_dims: 4 devices: 0 devices: 1 offsets: 0 "
           "offsets: 64 }",
           "put { seq: 1 array: 1 element: 4 shard_dims: 2 devices: 0 devices: 1 inline_data: "
           "'abcd' inline_shard: 0 inline_shard: 1 }",
           "put { seq: 1 array: 1 element: 4 shard_dims: 0 devices: 0 inline_shard: 0 }",
           "assemble { seq: 1 array: 3 arrays: 1 arrays: 2 shards: 0 shards: 0 }",
           "copy { seq: 1 array: 3 source: 1 devices: 3 devices: 2 }",
           "compile { program: 1 artifact: 'x' options { num_replicas: 1 num_partitions: 2 "
           "devices: 1 devices: 0 } }",
           "run { seq: 1 program: 1 }",
           "run { seq: 1 program: 1 arguments: 1 results: 2 results: 3 keep: 0 }",
           "read { request: 1 array: 1 shard: 0 offset: 64 size: 64 }",
           "free { arrays: 1 programs: 2 }",
           "free { }",
           "callback_return { call: 1 results: 'x' }",
           "ping: 0",
           "cancel_read: 4",
           "memory_stats { request: 1 device: 3 }",
       }) {
    EXPECT_TRUE(ValidateClient(text).ok()) << text << ": " << ValidateClient(text);
  }
}

TEST(ValidateTest, BadClientMessagesNameTheField) {
  const Case cases[] = {
      {"", "ClientMessage.kind"},
      {"memory_stats { device: 3 }", "MemoryStatsRequest.request"},
      {"memory_stats { request: 1 device: 4 }", "MemoryStatsRequest.device"},
      {"memory_stats { request: 1 device: -1 }", "MemoryStatsRequest.device"},
      {"put { array: 1 element: 16 devices: 0 offsets: 0 }", "PutArray.seq"},
      {"put { seq: 1 element: 16 devices: 0 offsets: 0 }", "PutArray.array"},
      {"put { seq: 1 array: 1099511627776 element: 16 devices: 0 offsets: 0 }", "PutArray.array"},
      {"put { seq: 1 array: 1 element: 99 devices: 0 offsets: 0 }", "PutArray.shard_dims"},
      {"put { seq: 1 array: 1 element: 16 shard_dims: -1 devices: 0 offsets: 0 }",
       "PutArray.shard_dims"},
      {"put { seq: 1 array: 1 element: 16 shard_dims: 4611686018427387904 shard_dims: 8 devices: 0 "
       "offsets: 0 }",
       "PutArray.shard_dims"},
      {"put { seq: 1 array: 1 element: 16 }", "PutArray.devices"},
      {"put { seq: 1 array: 1 element: 16 devices: 4 offsets: 0 }", "PutArray.devices[0]"},
      {"put { seq: 1 array: 1 element: 16 devices: -1 offsets: 0 }", "PutArray.devices[0]"},
      {"put { seq: 1 array: 1 element: 16 devices: 0 devices: 1 offsets: 0 }", "PutArray.offsets"},
      {"put { seq: 1 array: 1 element: 16 devices: 0 offsets: 1048573 }", "PutArray.offsets"},
      {"put { seq: 1 array: 1 element: 16 devices: 0 offsets: 18446744073709551615 }",
       "PutArray.offsets"},
      {"put { seq: 1 array: 1 element: 16 devices: 0 inline_data: 'abcd' inline_shard: 1 }",
       "PutArray.inline_shard[0]"},
      {"put { seq: 1 array: 1 element: 16 devices: 0 inline_data: 'abc' inline_shard: 0 }",
       "PutArray.inline_shard[0]"},
      {"put { seq: 1 array: 1 element: 16 shard_dims: 281474976710655 devices: 0 inline_data: "
       "'abc' "
       "inline_shard: 4294967295 }",
       "PutArray"},
      {"assemble { seq: 1 array: 3 }", "Assemble.arrays"},
      {"assemble { seq: 1 array: 3 arrays: 1 }", "Assemble.shards"},
      {"copy { seq: 1 array: 3 source: 0 devices: 3 }", "Copy.source"},
      {"copy { seq: 1 array: 3 source: 1 }", "Copy.devices"},
      {"compile { program: 1 options { num_replicas: 1 num_partitions: 1 devices: 0 } }",
       "Compile.artifact"},
      {"compile { program: 1 artifact: 'x' options { num_replicas: 1 num_partitions: 1 devices: 0 "
       "devices: 1 } }",
       "Compile.options"},
      {"compile { program: 1 artifact: 'x' options { num_replicas: 2 num_partitions: 1 devices: 0 "
       "devices: 0 } }",
       "Compile.options.devices[1]"},
      {"compile { program: 1 artifact: 'x' options { num_replicas: -1 num_partitions: -1 devices: "
       "0 "
       "} }",
       "Compile.options"},
      {"run { seq: 1 program: 0 }", "Run.program"},
      {"run { seq: 1 program: 1 arguments: 1 arguments: 0 }", "Run.arguments[1]"},
      {"run { seq: 1 program: 1 results: 0 }", "Run.results[0]"},
      {"run { seq: 1 program: 1 arguments: 1 keep: 1 }", "Run.keep[0]"},
      {"read { array: 1 }", "Read.request"},
      {"read { request: 1 array: 1 offset: 1048576 size: 1 }", "Read.offset"},
      {"free { arrays: 0 }", "Free.arrays[0]"},
      {"callback_return { call: 1 status { code: 99 } }", "CallbackReturn.status.code"},
      {"cancel_read: 0", "cancel_read"},
  };
  for (const Case& bad : cases) {
    const absl::Status status = ValidateClient(bad.text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.field)) << bad.text;
  }
}

TEST(ValidateTest, ServerMessages) {
  auto validate = [](const char* text) { return Validate(Parse<ServerMessage>(text), kLimits); };
  EXPECT_TRUE(validate("welcome { devices { id: 0 } devices { id: 1 } arena_bytes: 4096 }").ok());
  EXPECT_FALSE(validate("welcome { arena_bytes: 4096 }").ok());
  EXPECT_FALSE(validate("welcome { devices { id: 1 } arena_bytes: 4096 }").ok());
  EXPECT_FALSE(validate("welcome { devices { id: 0 } }").ok());
  EXPECT_TRUE(
      validate("welcome { devices { id: 0 } arena_bytes: 64 link_prices: 'hosts=1:1' }").ok());
  EXPECT_FALSE(validate("welcome { devices { id: 0 } arena_bytes: 64 link_prices: 'cheap' }").ok());
  EXPECT_TRUE(validate("done { seqs: 1 failures { seq: 2 status { code: 3 } } }").ok());
  EXPECT_FALSE(validate("done { failures { seq: 2 } }").ok());
  EXPECT_FALSE(validate("done { seqs: 0 }").ok());
  EXPECT_TRUE(validate("compiled { program: 1 parameters { element: 16 alias_result: -1 } }").ok());
  EXPECT_FALSE(validate("compiled { program: 1 parameters { element: 16 alias_result: 3 } }").ok());
  EXPECT_FALSE(validate("callback { call: 1 device: 4 }").ok());
  EXPECT_FALSE(validate("").ok());
}

TEST(ValidateTest, WorkerMessages) {
  auto to = [](const char* text) { return Validate(Parse<ToWorker>(text), 4); };
  EXPECT_TRUE(to("configure { host: 1 devices: 1 hosts_of_devices: 0 hosts_of_devices: 1 }").ok());
  EXPECT_FALSE(to("configure { host: 0 devices: 1 hosts_of_devices: 0 hosts_of_devices: 1 }").ok());
  EXPECT_TRUE(to("load { program: 1 devices: 0 num_partitions: 1 constants { element: 4 dims: 2 "
                 "data: 'ab' } }")
                  .ok());
  EXPECT_FALSE(to("load { program: 1 devices: 0 num_partitions: 1 constants { element: 4 dims: 3 "
                  "data: 'ab' } }")
                   .ok());
  EXPECT_TRUE(to("run { run: 1 program: 1 arguments: 1099511627777 results: 2 }").ok());
  EXPECT_FALSE(to("run { run: 1 program: 1 keep: 0 }").ok());
  EXPECT_FALSE(to("poison { run: 1 arrays: 1 }").ok());
  EXPECT_FALSE(to("copy { op: 1 array: 1 source: 2 devices: 1 source_devices: 0 source_devices: 1 "
                  "element: 4 }")
                   .ok());
  EXPECT_TRUE(to("measure_link { launch: 1 device: 0 other: 3 }").ok());
  EXPECT_FALSE(to("measure_link { device: 0 other: 3 }").ok());
  EXPECT_FALSE(to("measure_link { launch: 64 device: 0 other: 3 }").ok());
  EXPECT_FALSE(to("measure_link { launch: 1 device: 0 other: 4 }").ok());
  EXPECT_FALSE(to("measure_link { launch: 1 device: -1 other: 3 }").ok());
  EXPECT_FALSE(to("measure_link { launch: 1 device: 3 other: 3 }").ok());
  auto from = [](const char* text) { return Validate(Parse<FromWorker>(text), 4); };
  EXPECT_TRUE(from("done { ids: 1 failures { id: 2 status { code: 13 } } }").ok());
  EXPECT_FALSE(from("done { failures { id: 2 } }").ok());
  EXPECT_FALSE(from("callback { call: 1 session: 1 device: 9 }").ok());
  EXPECT_TRUE(from("link_measured { launch: 1 latency_s: 1e-6 bytes_per_s: 1e9 }").ok());
  EXPECT_TRUE(from("link_measured { launch: 1 status { code: 4 } }").ok());
  EXPECT_FALSE(from("link_measured { latency_s: 1e-6 bytes_per_s: 1e9 }").ok());
  EXPECT_FALSE(from("link_measured { launch: 1 latency_s: -1 bytes_per_s: 1e9 }").ok());
  EXPECT_FALSE(from("link_measured { launch: 1 latency_s: nan bytes_per_s: 1e9 }").ok());
  EXPECT_FALSE(from("link_measured { launch: 1 latency_s: 1 bytes_per_s: inf }").ok());
}

TEST(ValidateTest, RandomBytesDoNoHarm) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const std::string good = Parse<ClientMessage>(
                               "put { seq: 1 array: 1 element: 4 shard_dims: 2 devices: 0 devices: "
                               "1 inline_data: 'abcd' "
                               "inline_shard: 0 inline_shard: 1 }")
                               .SerializeAsString();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (unsigned j = 0; j <= random() % 4; ++j) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ClientMessage client;
    if (client.ParseFromString(bytes)) Validate(client, kLimits).IgnoreError();
    ToWorker worker;
    if (worker.ParseFromString(bytes)) Validate(worker, 4).IgnoreError();
  }
}

TEST(ValidateTest, StatusesSurvive) {
  StatusProto proto;
  ToProto(absl::NotFoundError("no such thing"), &proto);
  EXPECT_EQ(FromProto(proto), absl::NotFoundError("no such thing"));
  proto.set_code(77);
  EXPECT_EQ(FromProto(proto).code(), absl::StatusCode::kUnknown);
  EXPECT_TRUE(FromProto(StatusProto()).ok());
}

}  // namespace
}  // namespace shardway::wire
