#include "shardway/store/store.h"

#include <gtest/gtest.h>

#include <thread>

namespace shardway::store {
namespace {

class TestBuffer : public device::Buffer {
 public:
  explicit TestBuffer(size_t bytes) : bytes_(bytes) { ++live; }
  ~TestBuffer() override { --live; }
  ElementType element() const override { return ElementType::kI8; }
  absl::Span<const int64_t> dims() const override { return {}; }
  size_t num_bytes() const override { return bytes_; }
  absl::Status Await() override { return absl::OkStatus(); }
  absl::Status ToHost(void*, size_t) override { return absl::OkStatus(); }

  static inline std::atomic<int> live{0};

 private:
  size_t bytes_;
};

ArrayId Name(uint64_t session, uint64_t array) {
  return GlobalId(SessionId{session}, ArrayId{array});
}

TEST(ShardTest, IsNamedBeforeItExists) {
  auto account = std::make_shared<Account>(2);
  Shard shard(1, account);
  EXPECT_EQ(shard.borrowed(), nullptr);
  EXPECT_EQ(shard.Share().status().code(), absl::StatusCode::kFailedPrecondition);
  int calls = 0;
  shard.OnResolved([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(shard.Wait(std::chrono::milliseconds(1)));

  std::thread maker([&] { shard.Fulfil(std::make_shared<TestBuffer>(100)); });
  EXPECT_TRUE(shard.Wait(std::chrono::seconds(60)));
  maker.join();
  EXPECT_EQ(calls, 1);
  EXPECT_NE(shard.borrowed(), nullptr);
  EXPECT_EQ(account->bytes(1), 100);
  EXPECT_EQ(account->bytes(0), 0);
  shard.OnResolved([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(ShardTest, TheFirstResolutionCounts) {
  Shard shard(0, nullptr);
  shard.Poison(absl::DataLossError("first cause"));
  shard.Poison(absl::DataLossError("second cause"));
  shard.Fulfil(std::make_shared<TestBuffer>(1));
  EXPECT_EQ(shard.status().message(), "first cause");
  EXPECT_EQ(shard.borrowed(), nullptr);
}

TEST(ShardTest, DonationLeavesTheBufferToItsHolders) {
  auto account = std::make_shared<Account>(1);
  Shard shard(0, account);
  shard.Fulfil(std::make_shared<TestBuffer>(8));
  EXPECT_FALSE(shard.IsShared());
  auto held = shard.Share();
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(shard.IsShared());
  shard.Donate();
  EXPECT_EQ(shard.state(), Shard::State::kDonated);
  EXPECT_EQ(account->bytes(0), 0);
  EXPECT_EQ(TestBuffer::live, 1);
  held->reset();
  EXPECT_EQ(TestBuffer::live, 0);
  EXPECT_EQ(shard.Share().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ArrayTest, FindsShardsByDeviceAndByNumber) {
  Array array;
  auto first = std::make_shared<Shard>(2, nullptr);
  auto second = std::make_shared<Shard>(0, nullptr);
  array.Add(5, first);
  array.Add(9, second);
  EXPECT_EQ(*array.OnDevice(2), first);
  EXPECT_EQ(*array.OnDevice(0), second);
  EXPECT_EQ(array.OnDevice(1), nullptr);
  EXPECT_EQ(*array.WithIndex(9), second);
  EXPECT_EQ(array.WithIndex(0), nullptr);
}

TEST(StoreTest, NamesBelongToOpenSessions) {
  Store store(1);
  auto array = std::make_shared<Array>();
  EXPECT_EQ(store.Insert(Name(1, 7), array).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store.OpenSession(SessionId{1}).ok());
  EXPECT_EQ(store.OpenSession(SessionId{1}).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(store.Insert(Name(1, 7), array).ok());
  EXPECT_EQ(store.Insert(Name(1, 7), array).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store.Find(Name(1, 7)), array);
  EXPECT_EQ(store.Find(Name(2, 7)), nullptr);
  EXPECT_TRUE(store.Erase(Name(1, 7)));
  EXPECT_FALSE(store.Erase(Name(1, 7)));
}

TEST(StoreTest, ClosingASessionFreesAllButWhatIsHeld) {
  Store store(1);
  ASSERT_TRUE(store.OpenSession(SessionId{1}).ok());
  ASSERT_TRUE(store.OpenSession(SessionId{2}).ok());
  auto account = store.account(SessionId{1});
  for (uint64_t i = 1; i <= 10; ++i) {
    auto array = std::make_shared<Array>();
    auto shard = std::make_shared<Shard>(0, account);
    shard->Fulfil(std::make_shared<TestBuffer>(10));
    array->Add(0, std::move(shard));
    ASSERT_TRUE(store.Insert(Name(1, i), std::move(array)).ok());
  }
  ASSERT_TRUE(store.Insert(Name(2, 1), std::make_shared<Array>()).ok());
  EXPECT_EQ(account->total_bytes(), 100);
  std::shared_ptr<const Array> held = store.Find(Name(1, 3));
  EXPECT_EQ(store.CloseSession(SessionId{1}), 10u);
  EXPECT_EQ(account->total_bytes(), 10);
  held.reset();
  EXPECT_EQ(account->total_bytes(), 0);
  EXPECT_EQ(TestBuffer::live, 0);
  EXPECT_EQ(store.num_arrays(), 1u);
}

TEST(StoreTest, SharedShardsCountOnce) {
  Store store(1);
  ASSERT_TRUE(store.OpenSession(SessionId{1}).ok());
  auto shard = std::make_shared<Shard>(0, store.account(SessionId{1}));
  shard->Fulfil(std::make_shared<TestBuffer>(64));
  for (uint64_t i = 1; i <= 2; ++i) {
    auto array = std::make_shared<Array>();
    array->Add(0, shard);
    ASSERT_TRUE(store.Insert(Name(1, i), std::move(array)).ok());
  }
  shard.reset();
  EXPECT_EQ(store.account(SessionId{1})->total_bytes(), 64);
  store.Erase(Name(1, 1));
  EXPECT_EQ(store.account(SessionId{1})->total_bytes(), 64);
  store.Erase(Name(1, 2));
  EXPECT_EQ(store.account(SessionId{1})->total_bytes(), 0);
}

}  // namespace
}  // namespace shardway::store
