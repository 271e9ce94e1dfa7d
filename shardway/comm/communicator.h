// Carries out the collectives of one host's devices, with the other hosts' communicators. The
// contract is design decision 3; the points that shape this interface:
//
//   * Handlers (FFI custom calls inside XLA) file their operand and return a future; they find
//   their
//     launch and their device by XLA's run id (run_id.h), never by thread.
//   * A rendezvous is keyed by (launch id, call site, loop step, group).
//   * A promise is fulfilled when its result is ready and no peer still reads its operand.
//
// One communicator per worker process. Thread-safe. It outlives every executable that calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/clock.h"
#include "shardway/collective/spec.h"
#include "shardway/topology/links.h"

namespace shardway::comm {

// A program's collectives, checked and prepared once. Immutable; shared by all its launches.
class ProgramComm;

// What a waiting peer transfer or collective is woken with.
using LaunchId = int32_t;  // positive

class Communicator {
 public:
  struct Options {
    int host = 0;                     // this host's global number
    std::vector<int> host_of_device;  // by global device id
    std::vector<int> local_devices;   // global ids; the index is the ordinal on this host
    // For a participant that never comes. Counted from when all devices of the launch have started
    // it; a device that calls its user back stops the clock.
    Duration timeout = std::chrono::seconds(60);
    // For one that never starts: its host compiles the program, or executes earlier runs, for so
    // long. Also, twice, for a transfer whose sender does not begin.
    Duration start_timeout = std::chrono::minutes(30);
    // Shared memory for the hosts of this machine: an inherited memfd, or -1 when this host is
    // alone.
    int shared_memory_fd = -1;
    uint64_t shared_memory_bytes = 0;
    // Whether a device may wait a few microseconds in its call before it is suspended. It does so
    // only where there are as many cores as devices, and soon stops where it doesn't help.
    bool spin = true;
    Clock* clock = nullptr;  // null: the real one
  };
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(Options options);
  virtual ~Communicator() = default;

  // How many bytes of shared memory `hosts` hosts need (what the controller allocates, zeroed).
  static uint64_t SharedMemoryBytes(int hosts);

  // `devices`: logical id → global device id. INVALID_ARGUMENT when the specs don't fit the
  // devices.
  virtual absl::StatusOr<std::shared_ptr<const ProgramComm>> Prepare(
      std::vector<collective::Spec> specs, std::vector<int> devices) = 0;

  // Brackets a launch on this host: between Begin and End the handlers of `local_devices` (global
  // ids that take part on this host) may file operands. All hosts use the same id for one launch,
  // and an id is not reused while any host may still be in it.
  virtual void BeginLaunch(LaunchId launch, std::shared_ptr<const ProgramComm> program) = 0;
  virtual void EndLaunch(LaunchId launch) = 0;

  // Device `ordinal` of this host starts to execute `launch` (of any program): it can be expected
  // at the launch's collectives from now on. Launch ids grow in the order in which a device starts
  // them.
  virtual void DeviceStarts(LaunchId launch, int ordinal) = 0;
  // The program on device `ordinal` waits for something outside the cluster (+1), or goes on (-1).
  virtual void DeviceOutside(int ordinal, int change) = 0;

  // This host (one of its devices) will not take part in `launch`, or broke off in it: every
  // collective of the launch, here and on the other hosts, fails at once with `cause`.
  virtual void AbortLaunch(LaunchId launch, const absl::Status& cause) = 0;

  // Point to point between hosts, for copies of arrays: both sides name the same `key` (unique per
  // transfer). Blocking with the communicator's timeout; never called on an executor thread.
  virtual absl::Status Send(uint64_t key, int to_host, absl::Span<const char> bytes) = 0;
  virtual absl::Status Receive(uint64_t key, int from_host, absl::Span<char> bytes) = 0;
  // Calls `begun` once, on any thread, when Receive would not wait for its sender to begin: the
  // array may still be in the making there, and no thread here needs to wait for it. Also when the
  // sender is lost, or has not begun for long. `begun` must be short.
  virtual void OnTransfer(uint64_t key, int from_host, std::function<void()> begun) = 0;

  // What collectives between two devices (global ids) take, by carrying some out: see link_probe.h.
  // Their hosts call it with the same `launch`, while nothing else executes. Blocking.
  virtual absl::StatusOr<topology::Link> MeasureLink(LaunchId launch, int device, int other,
                                                     Duration timeout) = 0;

  // A host is known to be lost: everything that waits for it fails with UNAVAILABLE.
  virtual void HostLost(int host, const absl::Status& cause) = 0;
};

// The FFI handler for collective::kCustomCallTarget, as the C function pointer that PJRT's FFI
// extension registers (XLA_FFI_Handler*). One process has one communicator at a time for it (set by
// Create).
void* CollectiveHandler();

}  // namespace shardway::comm
