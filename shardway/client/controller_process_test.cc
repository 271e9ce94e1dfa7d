#include "shardway/client/controller_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "shardway/client/session.h"
#include "shardway/wire/socket.h"

namespace shardway::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<ControllerProcess>> StartShell(const std::string& script,
                                                              wire::UniqueFd* ours) {
  auto sockets = wire::SocketPair();
  EXPECT_TRUE(sockets.ok());
  *ours = std::move(sockets->first);
  const std::string number = std::to_string(sockets->second.get());
  return ControllerProcess::Start("/bin/bash", {"-c", script, number}, std::move(sockets->second));
}

TEST(ControllerProcessTest, ExitAndSignalAreTold) {
  wire::UniqueFd ours;
  auto process = StartShell("exit 3", &ours);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->AwaitEnd(seconds(20)), "exited with status 3");
  process = StartShell("sleep 100", &ours);
  ASSERT_TRUE(process.ok());
  EXPECT_EQ((*process)->AwaitEnd(milliseconds(10)), "");
  (*process)->Kill();
  EXPECT_THAT((*process)->AwaitEnd(seconds(20)), HasSubstr("killed by signal 9"));
}

TEST(ControllerProcessTest, ABinaryThatIsNotThere) {
  wire::UniqueFd ours;
  auto sockets = wire::SocketPair();
  ASSERT_TRUE(sockets.ok());
  const auto process =
      ControllerProcess::Start("/no/such/shardway", {}, std::move(sockets->second));
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("/no/such/shardway"));
}

TEST(ControllerProcessTest, TheChildHasItsSocketItsGroupAndNothingElse) {
  wire::UniqueFd leak(dup(0));  // not close-on-exec
  wire::UniqueFd ours;
  auto process = StartShell(
      "read -t 1 line; "
      "[ $(ps -o pgid= -p $$) = $$ ] && [ -S /proc/self/fd/$0 ] && "
      "[ $(ls /proc/$$/fd | wc -l) -le 5 ] && printf yes >&$0",
      &ours);
  ASSERT_TRUE(process.ok()) << process.status();
  (*process)->AwaitEnd(seconds(20));
  char answer[8] = {};
  EXPECT_EQ(read(ours.get(), answer, sizeof(answer)), 3);
  EXPECT_STREQ(answer, "yes");
}

TEST(ControllerProcessTest, ItSurvivesTheThreadThatStartedIt) {
  wire::UniqueFd ours;
  std::unique_ptr<ControllerProcess> process;
  std::thread starter([&] { process = *StartShell("sleep 100", &ours); });
  starter.join();
  EXPECT_EQ(process->AwaitEnd(milliseconds(100)), "");
  process->Kill();
}

TEST(ControllerProcessTest, ItDiesWithTheProcess) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    wire::UniqueFd ours;
    auto process = StartShell("sleep 100", &ours);
    const int pid = process.ok() ? (*process)->pid() : -1;
    if (write(pipe_ends[1], &pid, sizeof(pid)) < 0) _exit(1);
    pause();
  }
  int pid = 0;
  ASSERT_EQ(read(pipe_ends[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  EXPECT_EQ(kill(pid, 0), 0);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  // Orphans are reaped by init, or remain zombies where there is none.
  auto running = [&] {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return false;
    char state = 'Z';
    const int read = std::fscanf(file, "%*d %*s %c", &state);
    std::fclose(file);
    return read == 1 && state != 'Z' && state != 'X';
  };
  for (int i = 0; i < 500 && running(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(running());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(StartPrivateTest, AControllerThatEndsAtOnceIsExplained) {
  const auto session = Session::StartPrivate("/bin/false", {}, {.connect_timeout = seconds(20)});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("exited with status 1"));
}

}  // namespace
}  // namespace shardway::client
