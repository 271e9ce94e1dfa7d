// Damaged artifacts: whatever the bytes, reading ends with a module or an error. Run it under
// AddressSanitizer (`make asan`). SHARDWAY_FUZZ_SEED repeats a run, SHARDWAY_FUZZ_RUNS sets its
// length.
#include <gtest/gtest.h>

#include <random>

#include "shardway/ir/artifact_mutator.h"
#include "shardway/ir/artifact_reader.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"

namespace shardway::ir {
namespace {

TEST(ArtifactFuzz, DamagedArtifactsAreErrors) {
  const uint64_t seed = FromEnvironment("SHARDWAY_FUZZ_SEED", std::random_device()());
  const uint64_t runs = FromEnvironment("SHARDWAY_FUZZ_RUNS", 12000);
  SCOPED_TRACE(testing::Message() << "SHARDWAY_FUZZ_SEED=" << seed);
  RecordProperty("seed", std::to_string(seed));
  std::printf("SHARDWAY_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  ArtifactMutator mutator(seed);
  uint64_t read = 0;
  uint64_t well_formed = 0;
  for (uint64_t i = 0; i < runs; ++i) {
    auto module = ReadArtifact(std::make_shared<const std::string>(mutator.Next()));
    if (!module.ok()) {
      ASSERT_TRUE(module.status().code() == absl::StatusCode::kInvalidArgument ||
                  module.status().code() == absl::StatusCode::kUnimplemented)
          << "run " << i << ": " << module.status();
      continue;
    }
    ++read;
    EXPECT_FALSE(WriteText(**module).empty());
    if (!Verify(**module).ok()) continue;
    ++well_formed;
    Module copy;
    copy.meshes = (*module)->meshes;
    Cloner cloner(&copy);
    for (const Function* f : (*module)->functions()) cloner.CloneFunction(*f, f->name);
    const absl::Status status = Verify(copy);
    EXPECT_TRUE(status.ok()) << "run " << i << ": " << status;
  }
  // The damage must reach all stages to be worth the name.
  EXPECT_GT(read, runs / 100);
  EXPECT_LT(read, runs);
  EXPECT_GT(well_formed, 0u);
}

}  // namespace
}  // namespace shardway::ir
