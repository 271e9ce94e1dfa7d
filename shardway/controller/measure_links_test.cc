#include "shardway/controller/measure_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/controller/controller.h"
#include "shardway/controller/fake_worker.h"

namespace shardway::controller {
namespace {

using ::testing::HasSubstr;
using topology::Link;
using topology::LinkPrice;
using topology::LinkPrices;

constexpr Duration kDeadline = std::chrono::seconds(60);

class MeasureLinksTest : public ::testing::Test {
 protected:
  void Start(const topology::Shape& shape) {
    options_.shape = shape;
    options_.arena_bytes = 1 << 20;
    options_.compile = [](const compile::Request&) -> absl::StatusOr<compile::Partitioned> {
      return absl::UnimplementedError("not in this test");
    };
    for (int host = 0; host < shape.num_hosts(); ++host) {
      auto ends = wire::MakeChannelPair();
      ASSERT_TRUE(ends.ok()) << ends.status();
      options_.workers.push_back(std::move(ends->first));
      workers_.push_back(std::make_unique<FakeWorker>(std::move(ends->second)));
    }
  }
  absl::StatusOr<topology::MeasuredLinks> Measure(Duration timeout = kDeadline) {
    return MeasureLinks(options_.workers, *topology::Topology::Create(options_.shape), timeout);
  }

  ControllerOptions options_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
};

TEST_F(MeasureLinksTest, EachKindIsAsSlowAsItsSlowest) {
  Start({.islands = 3, .hosts = 2, .devices = 2});
  workers_[0]->SetLink(Link{2e-6, 4e9});
  workers_[1]->SetLink(Link{20e-6, 1e9});   // of the first island
  workers_[2]->SetLink(Link{900e-6, 2e8});  // the first of the second island
  workers_[4]->SetLink(Link{300e-6, 1e8});
  const auto links = Measure();
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_EQ(links->in_host->latency_s, 2e-6);
  EXPECT_EQ(links->in_host->bytes_per_s, 4e9);
  EXPECT_EQ(links->between_hosts->latency_s, 20e-6);
  EXPECT_EQ(links->between_hosts->bytes_per_s, 1e9);
  EXPECT_EQ(links->between_islands->latency_s, 900e-6);
  EXPECT_EQ(links->between_islands->bytes_per_s, 1e8);
}

TEST_F(MeasureLinksTest, WhatIsNotThereIsNotMeasured) {
  Start({.islands = 1, .hosts = 1, .devices = 1});
  const auto links = Measure();
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_FALSE(links->in_host || links->between_hosts || links->between_islands);
}

TEST_F(MeasureLinksTest, AWorkerThatDoesNotAnswerEndsIt) {
  Start({.islands = 2, .hosts = 1, .devices = 1});
  workers_[1]->SetLink(std::nullopt);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Measure(std::chrono::milliseconds(20)).status()));
}

TEST_F(MeasureLinksTest, AnAnswerOfNonsenseIsRefused) {
  Start({.islands = 2, .hosts = 1, .devices = 1});
  workers_[1]->SetLink(Link{-1, 1e9});
  EXPECT_THAT(std::string(Measure().status().message()), HasSubstr("-1 is no measurement"));
}

TEST_F(MeasureLinksTest, AControllerPricesWhatItMeasures) {
  Start({.islands = 2, .hosts = 1, .devices = 2});
  workers_[0]->SetLink(Link{2e-6, 4e9});
  workers_[1]->SetLink(Link{64e-6, 1e9});
  const auto controller = Controller::Start(std::move(options_));
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_EQ((*controller)->link_prices().between_islands, (LinkPrice{32, 4}));
}

TEST_F(MeasureLinksTest, AControllerTakesThePricesItIsGiven) {
  Start({.islands = 2, .hosts = 1, .devices = 2});
  const LinkPrices given{{2, 2}, {3, 3}};
  options_.link_prices = given;
  const auto controller = Controller::Start(std::move(options_));
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_EQ((*controller)->link_prices(), given);
}

TEST_F(MeasureLinksTest, AControllerStartsWithoutMeasurements) {
  Start({.islands = 2, .hosts = 1, .devices = 2});
  workers_[1]->SetLink(std::nullopt);
  options_.link_timeout = std::chrono::milliseconds(20);
  const auto controller = Controller::Start(std::move(options_));
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_EQ((*controller)->link_prices(), LinkPrices{});
}

}  // namespace
}  // namespace shardway::controller
