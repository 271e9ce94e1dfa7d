// The bare loop: what the executables and the collectives cost with no runtime around them.
//
//   bare_loop PLUGIN DEVICES {opbyop|fused|fused_loop}... [--spin|--no-spin] [--hosts]
//
// One thread for each device (with --hosts: one process) executes the same one-device program over
// and over: a scalar AllReduce, a multiply and an add, once (opbyop), 128 times unrolled (fused) or
// 128 times in a loop (fused_loop). Prints one JSON object: mode → computations/s, best of several.
//
// All executions belong to one launch: the loop step of its call sites tells them apart.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardway/comm/communicator.h"
#include "shardway/comm/test_plugin.h"
#include "shardway/device/pjrt_client.h"

namespace {

using shardway::ElementType;
using shardway::collective::Spec;
using shardway::comm::Communicator;
using shardway::comm::TestPlugin;

constexpr int kChain = 128;
constexpr int kRepeats = 7;
constexpr double kBatchSeconds = 0.25;

// What all threads or processes share: a barrier, and the length of the next batch.
struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<int> generation{0};
  std::atomic<int> executions{0};

  void Barrier(int parties) {
    const int now = generation.load();
    if (arrived.fetch_add(1) + 1 == parties) {
      arrived.store(0);
      generation.fetch_add(1);
      return;
    }
    while (generation.load() == now) ::usleep(200);
  }
};

std::string CallText(int site, const std::string& from, const std::string& to, int devices) {
  const std::string type = "tensor<1xf32>";
  return "  %r" + to + " = stablehlo.custom_call @shardway.collective(%" + from +
         ") {api_version = 4 : i32, has_side_effect = true, backend_config = {site = " +
         std::to_string(site) + " : i32}} : (" + type + ") -> " + type + "\n  %k" + to +
         " = stablehlo.constant dense<" + std::to_string(1.0 / devices) + "> : " + type + "\n  %o" +
         to + " = stablehlo.constant dense<1.0> : " + type + "\n  %m" + to +
         " = stablehlo.multiply %r" + to + ", %k" + to + " : " + type + "\n  %" + to +
         " = stablehlo.add %m" + to + ", %o" + to + " : " + type + "\n";
}

struct Program {
  std::string text;
  int sites = 1;
  int computations = 1;
};

Program MakeProgram(std::string_view mode, int devices) {
  const std::string type = "tensor<1xf32>";
  Program program;
  std::string body;
  if (mode == "fused_loop") {
    program.computations = kChain;
    body =
        "  %zero = stablehlo.constant dense<0> : tensor<i32>\n  %n = stablehlo.constant dense<" +
        std::to_string(kChain) +
        "> : tensor<i32>\n  %one = stablehlo.constant dense<1> : tensor<i32>\n  %w:2 = "
        "stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, " +
        type +
        "\n  cond {\n  %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> "
        "tensor<i1>\n  stablehlo.return %c : tensor<i1>\n  } do {\n" +
        CallText(0, "v", "y", devices) +
        "  %j = stablehlo.add %i, %one : tensor<i32>\n  stablehlo.return %j, %y : tensor<i32>, " +
        type + "\n  }\n  return %w#1 : " + type + "\n";
  } else {
    program.sites = program.computations = mode == "fused" ? kChain : 1;
    std::string last = "x";
    for (int site = 0; site < program.sites; ++site) {
      const std::string next = "y" + std::to_string(site);
      body += CallText(site, last, next, devices);
      last = next;
    }
    body += "  return %" + last + " : " + type + "\n";
  }
  program.text =
      "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
      " func.func public @main(%x: " +
      type + ") -> " + type + " {\n" + body + " }\n}";
  return program;
}

// One device's part of all batches. The device with `report` sets their lengths and keeps the best
// rate.
void RunDevice(TestPlugin& plugin, PJRT_LoadedExecutable* executable, int ordinal, int parties,
               Shared& shared, bool report, double* best) {
  const float one = 1;
  PJRT_Buffer* value = plugin.FromHost(ordinal, PJRT_Buffer_Type_F32, {1}, &one);
  if (report) shared.executions.store(200);
  for (int batch = 0; batch <= kRepeats; ++batch) {
    shared.Barrier(parties);
    const int n = shared.executions.load();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; ++i) {
      std::string error;
      PJRT_Buffer* next = plugin.Execute(executable, ordinal, /*launch=*/1, value, &error);
      if (next == nullptr) {
        std::fprintf(stderr, "%s\n", error.c_str());
        std::_Exit(1);
      }
      plugin.Free(value);
      value = next;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    shared.Barrier(parties);
    if (!report) continue;
    if (batch > 0) *best = std::max(*best, n / seconds);
    shared.executions.store(std::max(20, static_cast<int>(n / seconds * kBatchSeconds)));
  }
  plugin.Free(value);
}

struct Options {
  std::string plugin;
  int devices = 0;
  std::vector<std::string> modes;
  bool spin = true;
  bool hosts = false;
};

// The rate of one mode on `host` with its `local` devices.
double Measure(const Options& options, std::string_view mode, int host, int fd, TestPlugin& plugin,
               Shared& shared) {
  const int local = options.hosts ? 1 : options.devices;
  Communicator::Options comm;
  comm.host = host;
  for (int d = 0; d < options.devices; ++d) comm.host_of_device.push_back(options.hosts ? d : 0);
  for (int d = 0; d < local; ++d) comm.local_devices.push_back(host + d);
  comm.spin = options.spin;
  if (options.hosts) {
    comm.shared_memory_fd = fd;
    comm.shared_memory_bytes = Communicator::SharedMemoryBytes(options.devices);
  }
  auto communicator = Communicator::Create(comm);
  const Program text = MakeProgram(mode, options.devices);
  std::vector<Spec> specs(text.sites);
  std::vector<int> ids(options.devices);
  std::iota(ids.begin(), ids.end(), 0);
  for (int site = 0; site < text.sites; ++site) {
    specs[site].site = site;
    specs[site].reduction = shardway::collective::Reduction::kSum;
    specs[site].operands = specs[site].results = {{ElementType::kF32, {1}}};
    specs[site].groups = {.mesh = {options.devices}, .axes = {0}};
  }
  auto program = communicator.ok()
                     ? (*communicator)->Prepare(specs, ids)
                     : absl::StatusOr<std::shared_ptr<const shardway::comm::ProgramComm>>(
                           communicator.status());
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
    std::_Exit(1);
  }
  PJRT_LoadedExecutable* executable = plugin.Compile(text.text);
  (*communicator)->BeginLaunch(1, *program);
  double best = 0;
  std::vector<std::thread> threads;
  threads.reserve(local);
  for (int d = 0; d < local; ++d) {
    threads.emplace_back([&, d] {
      RunDevice(plugin, executable, d, options.devices, shared, host == 0 && d == 0, &best);
    });
  }
  for (std::thread& thread : threads) thread.join();
  (*communicator)->EndLaunch(1);
  shared.Barrier(options.hosts ? options.devices : 1);
  return best * text.computations;
}

int RunHost(const Options& options, int host, const std::vector<int>& fds, Shared& shared) {
  TestPlugin plugin(options.plugin,
                    shardway::device::CpuDevicesFor(options.hosts ? 1 : options.devices));
  std::string json;
  for (size_t i = 0; i < options.modes.size(); ++i) {
    const double rate = Measure(options, options.modes[i], host, fds[i], plugin, shared);
    json += (i == 0 ? "{\"" : ", \"") + options.modes[i] + "\": " + std::to_string(rate);
  }
  if (host == 0) std::printf("%s}\n", json.c_str());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--spin" || arg == "--no-spin") {
      options.spin = arg == "--spin";
    } else if (arg == "--hosts") {
      options.hosts = true;
    } else if (options.plugin.empty()) {
      options.plugin = arg;
    } else if (options.devices == 0) {
      options.devices = std::atoi(argv[i]);
    } else {
      options.modes.emplace_back(arg);
    }
  }
  if (options.devices < 1 || options.modes.empty()) {
    std::fprintf(stderr,
                 "usage: bare_loop PLUGIN DEVICES {opbyop|fused|fused_loop}... [--spin|--no-spin] "
                 "[--hosts]\n");
    return 2;
  }
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared;
  std::vector<int> fds(options.modes.size(), -1);
  if (!options.hosts) return RunHost(options, 0, fds, *shared);

  for (int& fd : fds) {
    fd = ::memfd_create("bare_loop", MFD_CLOEXEC);
    if (::ftruncate(fd, static_cast<off_t>(Communicator::SharedMemoryBytes(options.devices))) !=
        0) {
      std::perror("ftruncate");
      return 1;
    }
  }
  for (int host = 1; host < options.devices; ++host) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::_Exit(RunHost(options, host, fds, *shared));
  }
  const int result = RunHost(options, 0, fds, *shared);
  while (::wait(nullptr) > 0) {
  }
  std::_Exit(result);
}
