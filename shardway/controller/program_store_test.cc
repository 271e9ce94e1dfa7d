#include "shardway/controller/program_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace shardway::controller {
namespace {

compile::Request RequestFor(const std::string& artifact) {
  compile::Request request;
  request.artifact = std::make_shared<const std::string>(artifact);
  return request;
}

absl::StatusOr<program::ProgramPtr> GetAndWait(ProgramStore& store, const std::string& artifact) {
  std::promise<absl::StatusOr<program::ProgramPtr>> promise;
  store.Get(RequestFor(artifact),
            [&](absl::StatusOr<program::ProgramPtr> result) { promise.set_value(result); });
  return promise.get_future().get();
}

absl::StatusOr<compile::Partitioned> Named(const compile::Request& request) {
  if (*request.artifact == "bad") return absl::InvalidArgumentError("bad");
  compile::Partitioned program;
  program.name = *request.artifact;
  return program;
}

TEST(ProgramStoreTest, TheSameContentIsCompiledOnce) {
  ProgramStore store(Named, 2);
  EXPECT_EQ(*GetAndWait(store, "a"), *GetAndWait(store, "a"));
  EXPECT_NE(*GetAndWait(store, "a"), *GetAndWait(store, "b"));
  EXPECT_EQ(store.compiles(), 2);
  compile::Request other = RequestFor("a");
  other.num_partitions = 2;
  std::promise<void> done;
  store.Get(other, [&](absl::StatusOr<program::ProgramPtr>) { done.set_value(); });
  done.get_future().get();
  EXPECT_EQ(store.compiles(), 3) << "options are part of what is compiled";
  other.places = {{0, 0}, {1, 1}};
  std::promise<void> placed;
  store.Get(other, [&](absl::StatusOr<program::ProgramPtr>) { placed.set_value(); });
  placed.get_future().get();
  EXPECT_EQ(store.compiles(), 4) << "and so is where islands end";
}

TEST(ProgramStoreTest, FailuresAreNotRemembered) {
  ProgramStore store(Named, 1);
  EXPECT_FALSE(GetAndWait(store, "bad").ok());
  EXPECT_FALSE(GetAndWait(store, "bad").ok());
  EXPECT_EQ(store.compiles(), 2);
}

TEST(ProgramStoreTest, TheOldestGoFirst) {
  ProgramStore store(Named, 1, /*max_programs=*/2);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(GetAndWait(store, name).ok());
  ASSERT_TRUE(GetAndWait(store, "c").ok());
  EXPECT_EQ(store.compiles(), 3);
  ASSERT_TRUE(GetAndWait(store, "a").ok());
  EXPECT_EQ(store.compiles(), 4);
}

TEST(ProgramStoreTest, RequestsForOneBeingCompiledShareIt) {
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  std::atomic<int> answers = 0;
  {
    ProgramStore store(
        [gate](const compile::Request& request) {
          gate.wait();
          return Named(request);
        },
        2);
    for (int i = 0; i < 10; ++i) {
      store.Get(RequestFor("a"),
                [&](absl::StatusOr<program::ProgramPtr> result) { answers += result.ok(); });
    }
    go.set_value();
    ASSERT_TRUE(GetAndWait(store, "a").ok());
    EXPECT_EQ(store.compiles(), 1);
  }
  EXPECT_EQ(answers, 10);
}

}  // namespace
}  // namespace shardway::controller
