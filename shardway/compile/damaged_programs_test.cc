// Programs that were damaged on their way, through the whole compiler: an error each time, or,
// where the damage left a program, a program for one device. Never a crash: the controller serves
// others too. SHARDWAY_FUZZ_SEED repeats a run, SHARDWAY_FUZZ_RUNS sets its length.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "shardway/compile/compile.h"
#include "shardway/ir/artifact_mutator.h"

namespace shardway::compile {
namespace {

absl::StatusOr<Partitioned> CompileFor8(std::string artifact) {
  Request request;
  request.artifact = std::make_shared<const std::string>(std::move(artifact));
  request.num_partitions = 8;
  return Compile(request);
}

bool IsOfTheProgram(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kUnimplemented;
}

// Every proper beginning of an artifact is an error.
TEST(DamagedPrograms, CutAtEachByteAreErrors) {
  for (const char* name : {"psum@1.17.0", "twin-mlp_grads@1.17.0"}) {
    const std::string whole = *ir::TestArtifact(name);
    ASSERT_TRUE(CompileFor8(whole).ok()) << CompileFor8(whole).status();
    for (size_t length = 0; length < whole.size(); ++length) {
      const absl::Status status = CompileFor8(whole.substr(0, length)).status();
      ASSERT_TRUE(IsOfTheProgram(status)) << name << " cut at " << length << ": " << status;
    }
  }
}

TEST(DamagedPrograms, NeverCrashTheCompiler) {
  const uint64_t seed = ir::FromEnvironment("SHARDWAY_FUZZ_SEED", std::random_device()());
  const uint64_t runs = ir::FromEnvironment("SHARDWAY_FUZZ_RUNS", 10000);
  std::printf("SHARDWAY_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  ir::ArtifactMutator mutator(seed);
  uint64_t compiled = 0;
  for (uint64_t i = 0; i < runs; ++i) {
    const absl::StatusOr<Partitioned> program = CompileFor8(mutator.Next());
    if (program.ok()) {
      ++compiled;
      EXPECT_FALSE(program->text.empty());
    } else {
      ASSERT_TRUE(IsOfTheProgram(program.status()))
          << "run " << i << " of seed " << seed << ": " << program.status();
    }
  }
  // The damage must reach the end to be worth the name, and must be damage.
  EXPECT_GT(compiled, 0u);
  EXPECT_LT(compiled, runs);
}

}  // namespace
}  // namespace shardway::compile
