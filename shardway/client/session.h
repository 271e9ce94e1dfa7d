// A session with a controller: the whole-mesh interface under both the PJRT plugin and other
// front ends. One array is one handle whatever the number of its shards; results are named here,
// so nothing on the way down waits (Pathways §4.5; design decision 6).
//
// Thread-safe. Callbacks run on the session's reader thread: they must be short, must not call back
// into blocking functions of the session, and are called exactly once, also when the session ends
// (then with UNAVAILABLE). Every wait has a deadline: a controller that does not answer a ping
// within `Options::liveness` is lost, and everything outstanding fails with an UNAVAILABLE that
// says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/clock.h"
#include "shardway/base/element_type.h"
#include "shardway/base/ids.h"

namespace shardway::client {

struct Device {
  int id = 0;  // global
  int island = 0;
  int host = 0;   // within the island
  int local = 0;  // within the host
  std::vector<int> coords;
};

struct ArraySpec {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> shard_dims;  // every shard has this shape
  std::vector<int> devices;         // shard i is on devices[i] (global ids)
};

// Bytes of one shard on the host. `byte_strides` empty: dense row-major; otherwise one per
// dimension (negative and zero ones allowed).
struct HostShard {
  const void* data = nullptr;
  std::vector<int64_t> byte_strides;
};

// compile::Boundary as the client sees it.
struct Boundary {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> global_dims;
  std::vector<int64_t> local_dims;
  std::string op_sharding;  // serialized xla.OpSharding
  bool is_token = false;
  bool donated = false;
  int alias_result = -1;
  std::string memory_kind;
};

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  std::vector<int> devices;  // logical id (replica-major) → global device id
  std::vector<bool> allow_propagation_to_parameters;
  std::vector<bool> allow_propagation_to_results;
  bool use_shardy = true;
  std::string xla_options;  // serialized CompileOptionsProto as JAX gave it
};

// What the program asks to be told about a value inside it (jax.debug.inspect_array_sharding).
struct Inspection {
  std::string callback;     // as the artifact has it
  std::string op_sharding;  // serialized xla.OpSharding
};

struct Program {
  ProgramId id;
  std::string name;
  std::vector<Boundary> parameters;
  std::vector<Boundary> results;
  std::vector<int> devices;
  std::vector<Inspection> inspections;
  double flops_per_device = 0;
  std::string text;
};

// What a program running on a device asks of the user's process (jax callbacks).
using CallbackHandler = std::function<absl::StatusOr<std::vector<std::string>>(
    uint64_t callback, int device, absl::Span<const std::string> operands)>;

class Session {
 public:
  struct Options {
    std::string client_name;
    Duration connect_timeout = std::chrono::seconds(60);
    Duration liveness = std::chrono::seconds(10);
    uint64_t memory_budget_bytes = 0;  // per device; 0: the controller's default
  };

  // `address`: "unix:@name" (an abstract socket), "unix:/path", or "fd:N" (a connected socket that
  // this process inherited). UNAVAILABLE when nobody answers in time.
  static absl::StatusOr<std::unique_ptr<Session>> Connect(std::string_view address,
                                                          Options options);
  // Starts a private cluster as a child process of this one and connects to it. The cluster ends
  // with the session, and with the process however that ends. `binary` is the path of `shardway`.
  struct ClusterShape {
    int islands = 1;
    int hosts = 1;            // per island
    int devices = 8;          // per host
    std::string plugin_path;  // empty: the default one
  };
  static absl::StatusOr<std::unique_ptr<Session>> StartPrivate(const std::string& binary,
                                                               const ClusterShape& shape,
                                                               Options options);
  virtual ~Session() = default;

  virtual const std::string& platform() const = 0;  // "cpu"
  virtual const std::string& platform_version() const = 0;
  virtual const std::vector<Device>& devices() const = 0;  // by global id
  // What the compiler weighs of links between them: topology::LinkPrices::ToString.
  virtual const std::string& link_prices() const = 0;

  // Makers: they return the new array at once. `shards` has one entry per device of `spec`; equal
  // data pointers (replicated arrays) travel once. The bytes are copied before Put returns. Only an
  // arena that stays full for longer than the liveness limit is an error (RESOURCE_EXHAUSTED).
  virtual absl::StatusOr<ArrayId> Put(const ArraySpec& spec,
                                      absl::Span<const HostShard> shards) = 0;
  virtual ArrayId Assemble(absl::Span<const ArrayId> arrays, absl::Span<const uint32_t> shards) = 0;
  virtual ArrayId Copy(ArrayId source, absl::Span<const int> devices) = 0;

  // Blocks until the program is partitioned (XLA then compiles in the background), or fails.
  virtual absl::StatusOr<Program> Compile(std::string artifact, const CompileOptions& options) = 0;

  // Launches; the results are `num_results` new arrays with consecutive ids from the returned one.
  // `keep`: donated parameters that must survive. `done`, when given, is called when every device
  // has ended the run, with its status.
  using DoneCallback = absl::AnyInvocable<void(const absl::Status&)>;
  virtual ArrayId Run(ProgramId program, absl::Span<const ArrayId> arguments, int num_results,
                      absl::Span<const uint32_t> keep, DoneCallback done) = 0;

  // Calls back once the array is there on all its devices, or is poisoned. Immediately (on the
  // calling thread) when that is already known.
  virtual void OnReady(ArrayId array, DoneCallback callback) = 0;
  // OK / the error / nullopt-like UNAVAILABLE is never returned here: true once the outcome is
  // known.
  virtual bool IsReady(ArrayId array) = 0;

  // Calls back once everything launched so far has ended, well or not.
  virtual void OnAllEnded(absl::AnyInvocable<void() &&> callback) = 0;

  // Copies shard `shard` to `destination` (dense row-major, `size` bytes), then calls back.
  virtual void Read(ArrayId array, uint32_t shard, void* destination, size_t size,
                    DoneCallback callback) = 0;

  // Arrays may be freed while runs that use them are outstanding. Never blocks; frees are gathered
  // and sent with the next message or within a millisecond.
  virtual void Free(ArrayId array) = 0;
  virtual void FreeProgram(ProgramId program) = 0;

  // What this session's arrays take on a device, and may take there. Blocks for the controller's
  // answer; what was freed before is no longer counted once the runs that used it have ended.
  struct MemoryStats {
    int64_t bytes_in_use = 0;
    int64_t bytes_limit = 0;
  };
  virtual absl::StatusOr<MemoryStats> DeviceMemory(int device) = 0;

  virtual void SetCallbackHandler(CallbackHandler handler) = 0;
};

}  // namespace shardway::client
