// Hosts as processes of their own over one shared memory, and what happens when one of them dies.
// Children only compute and exit with a status; what they see wrong goes to stderr.
#include <sys/wait.h>

#include <csignal>
#include <cstdio>

#include "gtest/gtest.h"
#include "shardway/comm/test_cluster.h"

namespace shardway::comm {
namespace {

using collective::Reduction;
using collective::Spec;

constexpr int kFailed = 1;

std::vector<Spec> Specs(int devices) {
  std::vector<Spec> specs(2);
  for (int site : {0, 1}) {
    specs[site].site = site;
    specs[site].reduction = Reduction::kSum;
    specs[site].operands = specs[site].results = {{ElementType::kF32, {site == 0 ? 1 : 50'000}}};
    specs[site].groups = {.mesh = {devices}, .axes = {0}};
    specs[site].location = "train.py:5";
  }
  return specs;
}

// One host of one device runs `steps` launches. Exit code of its process: 0 when all went well.
int RunHost(int hosts, int host, int fd, int steps, Duration timeout,
            const std::function<void(CommunicatorImpl&, int step)>& before_step) {
  auto communicator = CommunicatorImpl::Create(HostOptions(hosts, 1, host, fd, timeout));
  if (!communicator.ok()) return kFailed;
  std::vector<int> devices(hosts);
  for (int d = 0; d < hosts; ++d) devices[d] = d;
  auto program = (*communicator)->Prepare(Specs(hosts), devices);
  if (!program.ok()) return kFailed;
  std::vector<float> in(50'000), out(50'000);
  for (int step = 1; step <= steps; ++step) {
    before_step(**communicator, step);
    (*communicator)->BeginLaunch(step, *program);
    (*communicator)->DeviceStarts(step, 0);
    for (int site : {0, 1, 0}) {
      std::fill(in.begin(), in.end(), static_cast<float>(host + step));
      const absl::Status status =
          RunCollective(**communicator, step, 0, site, {in.data()}, {out.data()});
      const float expected = static_cast<float>(hosts * (hosts - 1) / 2 + hosts * step);
      if (!status.ok() || out[0] != expected || (site == 1 && out[49'999] != expected)) {
        std::fprintf(stderr, "host %d step %d: %s, %f instead of %f\n", host, step,
                     status.ToString().c_str(), out[0], expected);
        return status.ok() ? kFailed : 2 + static_cast<int>(status.code());
      }
    }
    (*communicator)->EndLaunch(step);
  }
  return 0;
}

std::vector<pid_t> Fork(int hosts, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int host = 0; host < hosts; ++host) {
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(body(host));
    children.push_back(child);
  }
  return children;
}

int Wait(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class ProcessesTest : public testing::TestWithParam<int> {};

TEST_P(ProcessesTest, ManySteps) {
  const int hosts = GetParam();
  const int fd = MakeSharedMemory(hosts);
  const auto children = Fork(hosts, [&](int host) {
    return RunHost(hosts, host, fd, 300, std::chrono::seconds(60), [](auto&, int) {});
  });
  for (pid_t child : children) EXPECT_EQ(Wait(child), 0);
  ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Hosts, ProcessesTest, testing::Values(2, 4, 8));

// Killed at a random moment, mostly in the middle of something. The others are told by their
// worker, here after a while, and end with UNAVAILABLE; no one hangs.
TEST(ProcessesTest, OneIsKilled) {
  const int hosts = 3;
  for (int round = 0; round < 10; ++round) {
    const int fd = MakeSharedMemory(hosts);
    const auto children = Fork(hosts, [&](int host) {
      return RunHost(hosts, host, fd, 1'000'000, std::chrono::seconds(30),
                     [&](CommunicatorImpl& communicator, int step) {
                       if (host == 2 || step != 1) return;
                       std::thread([&communicator] {
                         ::usleep(150'000);
                         communicator.HostLost(2, absl::UnknownError("killed"));
                       }).detach();
                     });
    });
    ::usleep(50'000 + round * 3'777);
    ::kill(children[2], SIGKILL);
    EXPECT_EQ(Wait(children[2]), -SIGKILL);
    for (int host : {0, 1}) {
      EXPECT_EQ(Wait(children[host]), 2 + static_cast<int>(absl::StatusCode::kUnavailable));
    }
    ::close(fd);
  }
}

// Nobody tells: the deadline does.
TEST(ProcessesTest, OneIsKilledAndNobodyTells) {
  const int fd = MakeSharedMemory(2);
  const auto children = Fork(2, [&](int host) {
    return RunHost(2, host, fd, 1'000'000, std::chrono::milliseconds(500), [](auto&, int) {});
  });
  ::usleep(100'000);
  ::kill(children[1], SIGKILL);
  EXPECT_EQ(Wait(children[1]), -SIGKILL);
  EXPECT_EQ(Wait(children[0]), 2 + static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  ::close(fd);
}

}  // namespace
}  // namespace shardway::comm
