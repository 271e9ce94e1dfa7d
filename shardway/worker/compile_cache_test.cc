#include "shardway/worker/compile_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace shardway::worker {
namespace {

class NoExecutable : public device::Executable {
 public:
  absl::Status Execute(const Launch&, std::vector<std::unique_ptr<device::Buffer>>*,
                       bool*) override {
    return absl::OkStatus();
  }
};

CompileCache::Result Compiled() {
  return std::shared_ptr<device::Executable>(std::make_shared<NoExecutable>());
}

TEST(CompileCacheTest, CompilesAKeyOnceWhoeverAsks) {
  CompileCache cache(10);
  std::atomic<int> compilations{0};
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<device::Executable>> got(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto result = cache.Get(i % 2 ? "odd" : "even", [&] {
        ++compilations;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return Compiled();
      });
      if (result.ok()) got[i] = *result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compilations, 2);
  EXPECT_EQ(got[0], got[6]);
  EXPECT_NE(got[0], got[1]);
}

TEST(CompileCacheTest, FailuresAreNotKept) {
  CompileCache cache(10);
  EXPECT_FALSE(
      cache.Get("key", [] { return CompileCache::Result(absl::InternalError("no")); }).ok());
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_TRUE(cache.Get("key", Compiled).ok());
}

TEST(CompileCacheTest, TheLeastRecentlyUsedLeaves) {
  CompileCache cache(2);
  int compilations = 0;
  const auto compile = [&] {
    ++compilations;
    return Compiled();
  };
  for (const char* key : {"a", "b", "a", "c", "a"}) EXPECT_TRUE(cache.Get(key, compile).ok());
  EXPECT_EQ(compilations, 3);
  EXPECT_TRUE(cache.Get("b", compile).ok());
  EXPECT_EQ(compilations, 4);
  EXPECT_EQ(cache.size(), 2u);
}

}  // namespace
}  // namespace shardway::worker
