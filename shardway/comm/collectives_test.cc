// Every collective, inside one host and across hosts, small and large, against the simple way.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardway/comm/test_cluster.h"

namespace shardway::comm {
namespace {

using collective::Groups;
using collective::Kind;
using collective::Reduction;
using collective::Shaped;
using collective::Spec;
using ::testing::HasSubstr;

struct Shape {
  int hosts;
  int devices_per_host;
};

class CollectivesTest : public testing::TestWithParam<Shape> {
 protected:
  CollectivesTest() : cluster_(GetParam().hosts, GetParam().devices_per_host) {}

  Spec Make(Kind kind, Reduction reduction = Reduction::kNone) {
    Spec spec;
    spec.kind = kind;
    spec.reduction = reduction;
    spec.groups = {.mesh = {cluster_.num_devices()}, .axes = {0}};
    spec.location = "test.py:1";
    return spec;
  }

  // Runs the only site of a program twice in one launch (two loop steps), with float data; returns
  // each device's results of the second one.
  std::vector<std::vector<float>> RunFloats(const Spec& spec,
                                            const std::vector<std::vector<float>>& inputs,
                                            LaunchId launch = 1) {
    cluster_.Prepare({spec});
    std::vector<std::vector<float>> outputs(cluster_.num_devices(),
                                            std::vector<float>(spec.results[0].num_elements(), -1));
    cluster_.Begin(launch);
    cluster_.Run([&](int device) {
      for (int step = 0; step < 2; ++step) {
        const absl::Status status =
            cluster_.Collective(launch, device, 0, {const_cast<float*>(inputs[device].data())},
                                {outputs[device].data()});
        EXPECT_TRUE(status.ok()) << status;
      }
    });
    cluster_.End(launch);
    return outputs;
  }

  std::vector<std::vector<float>> RandomInputs(int64_t elements) {
    std::vector<std::vector<float>> inputs(cluster_.num_devices(), std::vector<float>(elements));
    std::normal_distribution<float> normal;
    for (auto& input : inputs) {
      for (float& x : input) x = normal(random_);
    }
    return inputs;
  }

  const uint32_t seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937 random_{seed_};
  TestCluster cluster_;
};

TEST_P(CollectivesTest, AllReduceIsTheSumInDeviceOrderBitForBit) {
  for (int64_t elements : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{100'003}}) {
    Spec spec = Make(Kind::kAllReduce, Reduction::kSum);
    spec.operands = spec.results = {{ElementType::kF32, {elements}}};
    const auto inputs = RandomInputs(elements);
    std::vector<float> expected = inputs[0];
    for (int d = 1; d < cluster_.num_devices(); ++d) {
      for (int64_t i = 0; i < elements; ++i) expected[i] += inputs[d][i];
    }
    for (const auto& output : RunFloats(spec, inputs)) ASSERT_EQ(output, expected);
  }
}

// A device goes on once its result is there AND nobody reads its operand any more: XLA uses that
// memory for what comes next.
TEST_P(CollectivesTest, OperandsAreTheirOwnersAgainAfterwards) {
  constexpr int kSteps = 100;
  const int n = cluster_.num_devices();
  for (int64_t elements : {int64_t{3}, int64_t{50'000}}) {
    Spec spec = Make(Kind::kAllReduce, Reduction::kSum);
    spec.operands = spec.results = {{ElementType::kF32, {elements}}};
    cluster_.Prepare({spec});
    cluster_.Begin(static_cast<LaunchId>(elements));
    cluster_.Run([&](int device) {
      std::vector<float> in(elements), out(elements);
      for (int step = 0; step < kSteps; ++step) {
        std::fill(in.begin(), in.end(), static_cast<float>(device + step));
        const absl::Status status = cluster_.Collective(static_cast<LaunchId>(elements), device, 0,
                                                        {in.data()}, {out.data()});
        std::fill(in.begin(), in.end(), -1e9f);
        ASSERT_TRUE(status.ok()) << status;
        const auto expected = static_cast<float>(n * (n - 1) / 2 + n * step);
        ASSERT_EQ(std::count(out.begin(), out.end(), expected), elements) << "step " << step;
      }
    });
    cluster_.End(static_cast<LaunchId>(elements));
  }
}

TEST_P(CollectivesTest, AllReduceOfSeveralArraysOfDifferentTypes) {
  Spec spec = Make(Kind::kAllReduce, Reduction::kMax);
  spec.operands = spec.results = {
      {ElementType::kI32, {5}}, {ElementType::kF64, {40'000}}, {ElementType::kUI8, {7}}};
  cluster_.Prepare({spec});
  cluster_.Begin(7);
  const int n = cluster_.num_devices();
  cluster_.Run([&](int device) {
    std::vector<int32_t> a(5, device - 3), a_out(5);
    std::vector<double> b(40'000, -device), b_out(40'000);
    std::vector<uint8_t> c(7, static_cast<uint8_t>(200 + device)), c_out(7);
    EXPECT_TRUE(cluster_
                    .Collective(7, device, 0, {a.data(), b.data(), c.data()},
                                {a_out.data(), b_out.data(), c_out.data()})
                    .ok());
    EXPECT_THAT(a_out, testing::Each(n - 4));
    EXPECT_EQ(std::count(b_out.begin(), b_out.end(), 0.0), 40'000);
    EXPECT_THAT(c_out, testing::Each(200 + n - 1));
  });
  cluster_.End(7);
}

TEST_P(CollectivesTest, GroupsAreAxesInTheOrderListed) {
  const int n = cluster_.num_devices();
  if (n % 2 != 0) return;
  // Minor axis: neighbours; then lists across hosts.
  Spec spec = Make(Kind::kAllGather);
  spec.groups = {.mesh = {2, n / 2}, .axes = {0}};
  spec.operands = {{ElementType::kF32, {1}}};
  spec.results = {{ElementType::kF32, {2}}};
  std::vector<std::vector<float>> inputs(n);
  for (int d = 0; d < n; ++d) inputs[d] = {static_cast<float>(d)};
  auto outputs = RunFloats(spec, inputs);
  for (int d = 0; d < n; ++d) {
    const float low = static_cast<float>(d % (n / 2));
    EXPECT_THAT(outputs[d], testing::ElementsAre(low, low + n / 2));
  }
  std::vector<std::vector<int64_t>> lists(n / 2);
  for (int d = 0; d < n / 2; ++d) lists[d] = {n - 1 - d, d};
  spec.groups = {.mesh = {n}, .lists = lists};
  outputs = RunFloats(spec, inputs, 2);
  for (int d = 0; d < n; ++d) {
    const float low = static_cast<float>(std::min(d, n - 1 - d));
    EXPECT_THAT(outputs[d], testing::ElementsAre(n - 1 - low, low));
  }
}

TEST_P(CollectivesTest, AllGatherAllToAllAndReduceScatterAlongEachDimension) {
  const int n = cluster_.num_devices();
  for (int64_t scale : {1, 64}) {  // small, and shared between threads
    const int64_t rows = 2 * n, columns = 3 * n * scale;
    const auto inputs = RandomInputs(rows * columns);
    const auto in = [&](int d, int64_t r, int64_t c) { return inputs[d][r * columns + c]; };
    for (int dim : {0, 1}) {
      Spec spec = Make(Kind::kAllGather);
      spec.dim0 = dim;
      spec.operands = {{ElementType::kF32, {rows, columns}}};
      spec.results = {
          {ElementType::kF32, {dim == 0 ? rows * n : rows, dim == 1 ? columns * n : columns}}};
      auto outputs = RunFloats(spec, inputs);
      for (int64_t r = 0; r < spec.results[0].dims[0]; ++r) {
        for (int64_t c = 0; c < spec.results[0].dims[1]; ++c) {
          const float expected = dim == 0 ? in(static_cast<int>(r / rows), r % rows, c)
                                          : in(static_cast<int>(c / columns), r, c % columns);
          ASSERT_EQ(outputs[n - 1][r * spec.results[0].dims[1] + c], expected);
        }
      }

      spec = Make(Kind::kReduceScatter, Reduction::kSum);
      spec.dim0 = dim;
      const int64_t part_rows = dim == 0 ? rows / n : rows;
      const int64_t part_columns = dim == 1 ? columns / n : columns;
      spec.operands = {{ElementType::kF32, {rows, columns}}};
      spec.results = {{ElementType::kF32, {part_rows, part_columns}}};
      outputs = RunFloats(spec, inputs);
      for (int d = 0; d < n; ++d) {
        for (int64_t r = 0; r < part_rows; ++r) {
          for (int64_t c = 0; c < part_columns; ++c) {
            const int64_t row = dim == 0 ? d * part_rows + r : r;
            const int64_t column = dim == 1 ? d * part_columns + c : c;
            float sum = in(0, row, column);
            for (int s = 1; s < n; ++s) sum += in(s, row, column);
            ASSERT_EQ(outputs[d][r * part_columns + c], sum);
          }
        }
      }

      for (int concat : {0, 1}) {
        spec = Make(Kind::kAllToAll);
        spec.dim0 = dim;
        spec.dim1 = concat;
        spec.operands = {{ElementType::kF32, {rows, columns}}};
        spec.results = {{ElementType::kF32,
                         {concat == 0 ? part_rows * n : part_rows,
                          concat == 1 ? part_columns * n : part_columns}}};
        outputs = RunFloats(spec, inputs);
        for (int d = 0; d < n; ++d) {
          for (int64_t r = 0; r < spec.results[0].dims[0]; ++r) {
            for (int64_t c = 0; c < spec.results[0].dims[1]; ++c) {
              const int source = static_cast<int>(concat == 0 ? r / part_rows : c / part_columns);
              const int64_t row = r % part_rows + (dim == 0 ? d * part_rows : 0);
              const int64_t column = c % part_columns + (dim == 1 ? d * part_columns : 0);
              ASSERT_EQ(outputs[d][r * spec.results[0].dims[1] + c], in(source, row, column));
            }
          }
        }
      }
    }
  }
}

TEST_P(CollectivesTest, PermuteAndBroadcast) {
  const int n = cluster_.num_devices();
  for (int64_t elements : {4, 50'000}) {
    const auto inputs = RandomInputs(elements);
    Spec spec = Make(Kind::kCollectivePermute);
    spec.operands = spec.results = {{ElementType::kF32, {elements}}};
    for (int d = 0; d + 1 < n; ++d) spec.pairs.emplace_back(d, d + 1);
    auto outputs = RunFloats(spec, inputs);
    EXPECT_EQ(outputs[0], std::vector<float>(elements, 0));
    for (int d = 1; d < n; ++d) EXPECT_EQ(outputs[d], inputs[d - 1]);

    spec = Make(Kind::kCollectiveBroadcast);
    spec.operands = spec.results = {{ElementType::kF32, {elements}}};
    for (const auto& output : RunFloats(spec, inputs)) EXPECT_EQ(output, inputs[0]);
  }
}

TEST_P(CollectivesTest, PermuteWithoutPairsGivesZeros) {
  Spec spec = Make(Kind::kCollectivePermute);
  spec.operands = spec.results = {{ElementType::kF32, {3}}};
  spec.pairs = {{0, 0}};
  const auto inputs = RandomInputs(3);
  const auto outputs = RunFloats(spec, inputs);
  EXPECT_EQ(outputs[0], inputs[0]);
  for (int d = 1; d < cluster_.num_devices(); ++d) {
    EXPECT_THAT(outputs[d], testing::Each(0.0f));
  }
}

TEST_P(CollectivesTest, RaggedAllToAll) {
  const int n = cluster_.num_devices();
  // Device s sends s + 1 rows to each device d, which puts them one after another.
  const int64_t sent = n * n, received = n * (n + 1) / 2 + 1;
  Spec spec = Make(Kind::kRaggedAllToAll);
  const Shaped index = {ElementType::kI64, {n}};
  spec.operands = {{ElementType::kF32, {sent, 2}},
                   {ElementType::kF32, {received, 2}},
                   index,
                   index,
                   index,
                   index};
  spec.results = {spec.operands[1]};
  cluster_.Prepare({spec});
  cluster_.Begin(1);
  cluster_.Run([&](int device) {
    std::vector<float> input(sent * 2), output(received * 2, -7), result(received * 2);
    for (int64_t i = 0; i < sent * 2; ++i) input[i] = static_cast<float>(device * 1000 + i);
    std::vector<int64_t> from, sizes, to, receives;
    for (int64_t d = 0; d < n; ++d) {
      from.push_back(d * (device + 1));
      sizes.push_back(device + 1);
      to.push_back(device * (device + 1) / 2);
      receives.push_back(d + 1);
    }
    EXPECT_TRUE(cluster_
                    .Collective(1, device, 0,
                                {input.data(), output.data(), from.data(), sizes.data(), to.data(),
                                 receives.data()},
                                {result.data()})
                    .ok());
    int64_t row = 0;
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t i = 0; i < s + 1; ++i, ++row) {
        EXPECT_EQ(result[row * 2], static_cast<float>(s * 1000 + (device * (s + 1) + i) * 2));
      }
    }
    EXPECT_EQ(result[row * 2], -7);  // nobody wrote here: output shows
  });
  cluster_.End(1);
}

// Sites meet in any order, launches overlap, and devices run at their own speed.
TEST_P(CollectivesTest, ManyLaunchesAndSitesInAnyOrder) {
  constexpr int kSites = 5, kLaunches = 40;
  const int n = cluster_.num_devices();
  std::vector<Spec> specs;
  for (int site = 0; site < kSites; ++site) {
    Spec spec = Make(Kind::kAllReduce, Reduction::kSum);
    spec.site = site;
    spec.operands = spec.results = {{ElementType::kI64, {site == 4 ? 30'000 : 2}}};
    spec.work_after_us = site % 2 == 0 ? 1 : 1000;
    specs.push_back(spec);
  }
  cluster_.Prepare(specs);
  for (int base = 1; base <= kLaunches; base += 4) {
    for (int launch = base; launch < base + 4; ++launch) cluster_.Begin(launch);
    cluster_.Run([&](int device) {
      // Every (launch, site) on a thread of its own: XLA may have all of them outstanding.
      std::vector<std::thread> threads;
      for (int launch = base; launch < base + 4; ++launch) {
        for (int site = 0; site < kSites; ++site) {
          threads.emplace_back([&, launch, site] {
            const int64_t elements = specs[site].operands[0].num_elements();
            for (int step = 0; step < 3; ++step) {
              std::vector<int64_t> in(elements, device * 100 + launch + site * step), out(elements);
              const absl::Status status =
                  cluster_.Collective(launch, device, site, {in.data()}, {out.data()});
              EXPECT_TRUE(status.ok()) << status;
              const int64_t expected = n * (n - 1) / 2 * 100 + n * (launch + site * step);
              EXPECT_EQ(std::count(out.begin(), out.end(), expected), elements);
            }
          });
        }
      }
      for (std::thread& thread : threads) thread.join();
    });
    for (int launch = base; launch < base + 4; ++launch) cluster_.End(launch);
  }
}

TEST_P(CollectivesTest, AbortFailsWhoWaitsAndWhoComes) {
  const int n = cluster_.num_devices();
  if (n < 2) return;
  Spec spec = Make(Kind::kAllReduce, Reduction::kSum);
  spec.operands = spec.results = {{ElementType::kF32, {100'000}}};
  cluster_.Prepare({spec});
  for (int launch = 1; launch <= 30; ++launch) {
    cluster_.Begin(launch);
    cluster_.Run([&](int device) {
      std::vector<float> in(100'000, 1), out(100'000);
      if (device == n - 1) {
        cluster_.host_of(device).AbortLaunch(launch, absl::CancelledError("enough"));
        return;
      }
      const absl::Status status = cluster_.Collective(launch, device, 0, {in.data()}, {out.data()});
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
    });
    cluster_.End(launch);
    // The next launch is not disturbed by what was left over.
    std::vector<std::vector<float>> inputs(n, std::vector<float>(100'000, 1));
    cluster_.Begin(1000 + launch);
    cluster_.Run([&](int device) {
      std::vector<float> out(100'000);
      const absl::Status status =
          cluster_.Collective(1000 + launch, device, 0, {inputs[device].data()}, {out.data()});
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(out[99'999], n);
    });
    cluster_.End(1000 + launch);
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, CollectivesTest,
                         testing::Values(Shape{1, 1}, Shape{1, 4}, Shape{2, 1}, Shape{2, 2},
                                         Shape{3, 2}, Shape{5, 1}),
                         [](const auto& info) {
                           return std::to_string(info.param.hosts) + "x" +
                                  std::to_string(info.param.devices_per_host);
                         });

TEST(ReduceScatterTest, TwentyFourDevicesFourMegabytesOfDoubles) {
  constexpr int kDevices = 24;
  constexpr int64_t kElements = (int64_t{4} << 20) / 8 / kDevices * kDevices;
  TestCluster cluster(1, kDevices);
  Spec spec;
  spec.kind = Kind::kReduceScatter;
  spec.reduction = Reduction::kSum;
  spec.operands = {{ElementType::kF64, {kElements}}};
  spec.results = {{ElementType::kF64, {kElements / kDevices}}};
  spec.groups = {.mesh = {kDevices}, .axes = {0}};
  spec.work_after_us = 100;
  cluster.Prepare({spec});
  std::vector<double> expected(kElements);
  std::vector<std::vector<double>> inputs(kDevices, std::vector<double>(kElements));
  for (int d = 0; d < kDevices; ++d) {
    for (int64_t i = 0; i < kElements; ++i) {
      inputs[d][i] = 1.0 / (1 + (d * 31 + i) % 1009);
      expected[i] += inputs[d][i];
    }
  }
  cluster.Begin(1);
  cluster.Run([&](int device) {
    std::vector<double> out(kElements / kDevices);
    for (int run = 0; run < 150; ++run) {
      ASSERT_TRUE(cluster.Collective(1, device, 0, {inputs[device].data()}, {out.data()}).ok());
      ASSERT_TRUE(
          std::equal(out.begin(), out.end(), expected.begin() + device * (kElements / kDevices)));
    }
  });
  cluster.End(1);
}

TEST(TransfersTest, BetweenHostsInParts) {
  TestCluster cluster(2, 1);
  for (size_t bytes : {size_t{0}, size_t{10}, size_t{5000}, (size_t{70} << 20) + 3}) {
    std::string sent(bytes, '\0'), received(bytes, 'x');
    for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 31);
    std::thread sender([&] {
      const absl::Status status = cluster.host(0).Send(bytes, 1, sent);
      EXPECT_TRUE(status.ok()) << status;
    });
    const absl::Status status =
        cluster.host(1).Receive(bytes, 0, absl::MakeSpan(received.data(), received.size()));
    sender.join();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(sent, received);
  }
  std::string two(2, 0);
  ASSERT_TRUE(cluster.host(0).Send(9, 1, "abc").ok());
  EXPECT_FALSE(cluster.host(1).Receive(9, 0, absl::MakeSpan(two.data(), 2)).ok());
}

TEST(TransfersTest, ReceiversAreCalledWhenTheirSenderBegins) {
  TestCluster cluster(3, 1);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> called;
  const auto note = [&](int which) {
    return [&, which] {
      const std::lock_guard<std::mutex> lock(mutex);
      called.push_back(which);
      changed.notify_all();
    };
  };
  const auto await = [&](size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return called.size() >= count; });
    return called;
  };
  cluster.host(1).OnTransfer(7, 0, note(7));
  cluster.host(1).OnTransfer(8, 0, note(8));
  cluster.host(1).OnTransfer(7, 2, note(72));
  EXPECT_THAT(await(0), testing::IsEmpty());
  ASSERT_TRUE(cluster.host(0).Send(8, 1, std::string("abc")).ok());
  EXPECT_THAT(await(1), testing::ElementsAre(8));
  cluster.host(1).OnTransfer(8, 0, note(80));  // its part is there already
  EXPECT_THAT(await(2), testing::ElementsAre(8, 80));
  std::string three(3, 0);
  EXPECT_TRUE(cluster.host(1).Receive(8, 0, absl::MakeSpan(three.data(), 3)).ok());
  EXPECT_EQ(three, "abc");
  cluster.host(1).HostLost(2, absl::UnknownError("killed"));
  EXPECT_THAT(await(3), testing::ElementsAre(8, 80, 72));
  cluster.host(1).OnTransfer(9, 2, note(9));
  EXPECT_THAT(await(4), testing::ElementsAre(8, 80, 72, 9));
}

TEST(HostLostTest, FailsWhoWaitsAndLaterLaunches) {
  TestCluster cluster(3, 1);
  Spec spec;
  spec.reduction = Reduction::kSum;
  spec.operands = spec.results = {{ElementType::kF32, {1}}};
  spec.groups = {.mesh = {3}, .axes = {0}};
  cluster.Prepare({spec});
  cluster.Begin(1);
  cluster.Run([&](int device) {
    if (device == 2) {
      for (int h : {0, 1}) cluster.host(h).HostLost(2, absl::UnknownError("killed"));
      return;
    }
    float in = 1, out;
    const absl::Status status = cluster.Collective(1, device, 0, {&in}, {&out});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("host 2 is lost: killed"));
  });
  cluster.End(1);
  cluster.Begin(2);
  float in = 1, out;
  EXPECT_FALSE(cluster.Collective(2, 0, 0, {&in}, {&out}).ok());
  cluster.End(2);
  char byte = 0;
  EXPECT_EQ(cluster.host(0).Receive(5, 2, absl::MakeSpan(&byte, 1)).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace shardway::comm
