#include "shardway/cli/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace shardway::cli {
namespace {

using std::chrono::seconds;

TEST(ChildProcessTest, ExitStatusAndEnvironmentArrive) {
  ChildOptions options;
  options.path = "sh";
  options.arguments = {"-c", "exit $SHARDWAY_TEST_STATUS"};
  options.environment = {{"SHARDWAY_TEST_STATUS", "7"}};
  auto child = ChildProcess::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  const std::optional<int> ended = child->Await(seconds(20));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ExitCode(*ended), 7);
  EXPECT_EQ(DescribeEnd(*ended), "exited with status 7");
}

TEST(ChildProcessTest, ASignalIsReportedAsAShellWould) {
  ChildOptions options;
  options.path = "sleep";
  options.arguments = {"100"};
  auto child = ChildProcess::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_FALSE(child->Await(Duration(0)).has_value());
  child->Signal(SIGKILL);
  const std::optional<int> ended = child->Await(seconds(20));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ExitCode(*ended), 128 + SIGKILL);
}

TEST(ChildProcessTest, WhatCannotRunIsAnError) {
  ChildOptions options;
  options.path = "/nonexistent/program";
  EXPECT_TRUE(absl::IsNotFound(ChildProcess::Start(options).status()));
}

TEST(ChildProcessTest, ADroppedChildIsKilled) {
  ChildOptions options;
  options.path = "sleep";
  options.arguments = {"100"};
  pid_t pid = 0;
  {
    auto child = ChildProcess::Start(options);
    ASSERT_TRUE(child.ok()) << child.status();
    pid = child->pid();
  }
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace shardway::cli
