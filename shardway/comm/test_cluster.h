// For tests: hosts with devices that are plain threads, all in one process (which ThreadSanitizer
// sees through), and a collective computed the simple way to compare with.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "shardway/comm/communicator_impl.h"
#include "shardway/comm/latch.h"

namespace shardway::comm {

inline absl::Status RunCollective(CommunicatorImpl& communicator, LaunchId launch, int ordinal,
                                  int site, std::vector<void*> operands,
                                  std::vector<void*> results) {
  Latch latch;
  auto outcome = communicator.File({.launch = launch,
                                    .ordinal = ordinal,
                                    .site = site,
                                    .operands = operands,
                                    .results = results,
                                    .runtime = &latch,
                                    .context = &latch});
  if (!outcome.ok()) return outcome.status();
  if (*outcome == Outcome::kDone) return absl::OkStatus();
  absl::Status status;
  latch.Await(*Clock::Real(), TimePoint::max(), &status);
  return status;
}

inline Communicator::Options HostOptions(int hosts, int devices_per_host, int host, int fd,
                                         Duration timeout) {
  Communicator::Options options;
  options.host = host;
  for (int d = 0; d < hosts * devices_per_host; ++d) {
    options.host_of_device.push_back(d / devices_per_host);
  }
  for (int d = 0; d < devices_per_host; ++d) {
    options.local_devices.push_back(host * devices_per_host + d);
  }
  options.timeout = options.start_timeout = timeout;
  options.shared_memory_fd = fd;
  options.shared_memory_bytes = Communicator::SharedMemoryBytes(hosts);
  return options;
}

inline int MakeSharedMemory(int hosts) {
  const int fd = ::memfd_create("shardway-test", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(Communicator::SharedMemoryBytes(hosts))), 0);
  return fd;
}

class TestCluster {
 public:
  TestCluster(int hosts, int devices_per_host, Duration timeout = std::chrono::seconds(60),
              Duration start_timeout = std::chrono::seconds(60))
      : devices_per_host_(devices_per_host) {
    const int fd = hosts > 1 ? MakeSharedMemory(hosts) : -1;
    for (int host = 0; host < hosts; ++host) {
      Communicator::Options options = HostOptions(hosts, devices_per_host, host, fd, timeout);
      options.start_timeout = start_timeout;
      auto communicator = CommunicatorImpl::Create(std::move(options));
      EXPECT_TRUE(communicator.ok()) << communicator.status();
      hosts_.push_back(*std::move(communicator));
    }
    if (fd >= 0) ::close(fd);
  }

  int num_hosts() const { return static_cast<int>(hosts_.size()); }
  int num_devices() const { return num_hosts() * devices_per_host_; }
  CommunicatorImpl& host(int host) { return *hosts_[host]; }
  CommunicatorImpl& host_of(int device) { return *hosts_[device / devices_per_host_]; }
  int ordinal_of(int device) const { return device % devices_per_host_; }

  // One program over all devices, on every host.
  void Prepare(const std::vector<collective::Spec>& specs) {
    std::vector<int> devices(num_devices());
    for (int d = 0; d < num_devices(); ++d) devices[d] = d;
    programs_.clear();
    for (auto& host : hosts_) {
      auto program = host->Prepare(specs, devices);
      ASSERT_TRUE(program.ok()) << program.status();
      programs_.push_back(*program);
    }
  }

  // All devices start the launch, `unstarted` aside.
  void Begin(LaunchId launch, int unstarted = -1) {
    for (int h = 0; h < num_hosts(); ++h) hosts_[h]->BeginLaunch(launch, programs_[h]);
    for (int d = 0; d < num_devices(); ++d) {
      if (d != unstarted) host_of(d).DeviceStarts(launch, ordinal_of(d));
    }
  }
  void End(LaunchId launch) {
    for (auto& host : hosts_) host->EndLaunch(launch);
  }

  // Runs `body(device)` on a thread for each device.
  void Run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    threads.reserve(num_devices());
    for (int d = 0; d < num_devices(); ++d) threads.emplace_back([&body, d] { body(d); });
    for (std::thread& thread : threads) thread.join();
  }

  absl::Status Collective(LaunchId launch, int device, int site, std::vector<void*> operands,
                          std::vector<void*> results) {
    return RunCollective(host_of(device), launch, ordinal_of(device), site, std::move(operands),
                         std::move(results));
  }

 private:
  const int devices_per_host_;
  std::vector<std::unique_ptr<CommunicatorImpl>> hosts_;
  std::vector<std::shared_ptr<const ProgramComm>> programs_;
};

}  // namespace shardway::comm
