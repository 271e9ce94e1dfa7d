// The worker process, as the controller sees it. The child is this test program again, with
// kChildFd set: it becomes a worker.
#include "shardway/worker/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "shardway/device/pjrt_test_plugins.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/socket.h"
#include "shardway/wire/validate.h"

extern char** environ;

namespace shardway::worker {
namespace {

constexpr char kChildFd[] = "SHARDWAY_TEST_WORKER_FD";

TEST(DaemonChild, DISABLED_BecomesAWorker) {
  const char* fd = std::getenv(kChildFd);
  if (fd == nullptr) GTEST_SKIP() << "only as DaemonPluginTest's child";
  std::exit(RunWorkerMain(std::atoi(fd)));
}

class DaemonPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    plugin_ = device::FindTestPlugin(device::kDefaultTestPlugin);
    if (plugin_.empty()) GTEST_SKIP() << "no plugin is installed";
    auto sockets = wire::SocketPair();
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    wire::KeepOverExec(sockets->second.get());
    setenv(kChildFd, std::to_string(sockets->second.get()).c_str(), 1);
    const char* arguments[] = {"worker", "--gtest_also_run_disabled_tests",
                               "--gtest_filter=DaemonChild.*", nullptr};
    ASSERT_EQ(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr,
                          const_cast<char* const*>(arguments), environ),
              0);
    unsetenv(kChildFd);
    sockets->second.Reset();
    auto channel = wire::MakeSharedMemoryChannel(std::move(sockets->first));
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  wire::FromWorker Configure(uint32_t protocol) {
    wire::ToWorker message;
    wire::Configure* configure = message.mutable_configure();
    configure->set_protocol(protocol);
    configure->add_devices(0);
    configure->add_hosts_of_devices(0);
    configure->set_plugin_path(plugin_);
    EXPECT_TRUE(channel_->Send(message).ok());
    wire::FromWorker ready;
    const absl::Status status = channel_->Receive(&ready, std::chrono::seconds(60));
    EXPECT_TRUE(status.ok()) << status;
    return ready;
  }
  // Its exit status, as waitpid gives it; -1 when it still lives after a while.
  int AwaitExit() {
    int status = 0;
    for (int i = 0; i < 3000; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }

  std::string plugin_;
  pid_t pid_ = 0;
  std::unique_ptr<wire::Channel> channel_;
};

TEST_F(DaemonPluginTest, ServesAndLeavesWhenTheControllerDoes) {
  const wire::FromWorker ready = Configure(wire::kWorkerProtocol);
  EXPECT_EQ(ready.ready().status().code(), 0) << ready.ready().status().message();
  EXPECT_EQ(ready.ready().platform(), "cpu");
  kill(pid_, SIGINT);  // the user's Ctrl-C goes to the whole process group; it is not for us
  wire::ToWorker ping;
  ping.set_ping(5);
  ASSERT_TRUE(channel_->Send(ping).ok());
  wire::FromWorker pong;
  ASSERT_TRUE(channel_->Receive(&pong, std::chrono::seconds(60)).ok());
  EXPECT_EQ(pong.pong(), 5u);
  channel_->Close();
  const int status = AwaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(DaemonPluginTest, EndsOnShutdown) {
  Configure(wire::kWorkerProtocol);
  wire::ToWorker message;
  message.set_shutdown(true);
  ASSERT_TRUE(channel_->Send(message).ok());
  const int status = AwaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(DaemonPluginTest, RefusesAnotherProtocol) {
  const wire::FromWorker ready = Configure(wire::kWorkerProtocol + 1);
  EXPECT_EQ(wire::FromProto(ready.ready().status()).code(), absl::StatusCode::kFailedPrecondition);
  const int status = AwaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

}  // namespace
}  // namespace shardway::worker
