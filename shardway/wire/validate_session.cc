#include "shardway/base/ids.h"
#include "shardway/base/status_macros.h"
#include "shardway/topology/links.h"
#include "shardway/wire/field_checks.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"

namespace shardway::wire {
namespace {

constexpr uint64_t kAnyId = ~uint64_t{0};

// ---- client → controller ----

absl::Status Check(const Hello& hello) {
  if (hello.client_name().size() > 4096) return BadField("Hello.client_name", "over 4096 bytes");
  return absl::OkStatus();
}

absl::Status Check(const PutArray& put, const SessionLimits& limits) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("PutArray.seq", put.seq(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("PutArray.array", put.array(), kMaxLocalId));
  return CheckPut({"PutArray", put.element(), put.shard_dims(), put.devices(), put.offsets(),
                   put.inline_data(), put.inline_shard()},
                  limits.num_devices, limits.arena_bytes);
}

absl::Status Check(const Assemble& assemble) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Assemble.seq", assemble.seq(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("Assemble.array", assemble.array(), kMaxLocalId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("Assemble.arrays", assemble.arrays(), kMaxLocalId));
  if (assemble.arrays().empty()) return BadField("Assemble.arrays", "empty");
  if (assemble.arrays().size() > kMaxDevices) {
    return BadField("Assemble.arrays", absl::StrCat(assemble.arrays().size(), " entries"));
  }
  if (assemble.shards().size() != assemble.arrays().size()) {
    return BadField("Assemble.shards", absl::StrCat(assemble.shards().size(), " entries for ",
                                                    assemble.arrays().size(), " arrays"));
  }
  return absl::OkStatus();
}

absl::Status Check(const Copy& copy, const SessionLimits& limits) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Copy.seq", copy.seq(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("Copy.array", copy.array(), kMaxLocalId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("Copy.source", copy.source(), kMaxLocalId));
  return CheckDevices("Copy.devices", copy.devices(), limits.num_devices);
}

absl::Status Check(const Compile& compile, const SessionLimits& limits) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Compile.program", compile.program(), kMaxLocalId));
  if (compile.artifact().empty()) return BadField("Compile.artifact", "empty");
  const CompileOptions& options = compile.options();
  SHARDWAY_RETURN_IF_ERROR(
      CheckDistinctDevices("Compile.options.devices", options.devices(), limits.num_devices));
  const int64_t replicas = options.num_replicas();
  const int64_t partitions = options.num_partitions();
  if (replicas < 1 || replicas > kMaxDevices || partitions < 1 || partitions > kMaxDevices ||
      replicas * partitions != options.devices().size()) {
    return BadField("Compile.options",
                    absl::StrCat(replicas, " replicas x ", partitions, " partitions on ",
                                 options.devices().size(), " devices"));
  }
  if (options.allow_propagation_to_parameters().size() > kMaxValuesPerProgram ||
      options.allow_propagation_to_results().size() > kMaxValuesPerProgram) {
    return BadField("Compile.options.allow_propagation", "too many entries");
  }
  return absl::OkStatus();
}

absl::Status Check(const Run& run) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Run.seq", run.seq(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("Run.program", run.program(), kMaxLocalId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("Run.arguments", run.arguments(), kMaxLocalId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("Run.results", run.results(), kMaxLocalId));
  for (int i = 0; i < run.keep().size(); ++i) {
    if (run.keep(i) >= static_cast<uint32_t>(run.arguments().size())) {
      return BadEntry(
          "Run.keep", i,
          absl::StrCat(run.keep(i), "; there are ", run.arguments().size(), " arguments"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const Read& read, const SessionLimits& limits) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Read.request", read.request(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("Read.array", read.array(), kMaxLocalId));
  return CheckBlock("Read.offset", {read.offset(), read.size()}, limits.arena_bytes);
}

absl::Status Check(const Free& free) {
  SHARDWAY_RETURN_IF_ERROR(CheckIds("Free.arrays", free.arrays(), kMaxLocalId));
  return CheckIds("Free.programs", free.programs(), kMaxLocalId);
}

absl::Status Check(const CallbackReturn& result) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("CallbackReturn.call", result.call(), kAnyId));
  return CheckStatus("CallbackReturn.status", result.status());
}

// ---- controller → client ----

absl::Status Check(const Welcome& welcome) {
  if (welcome.devices().empty()) return BadField("Welcome.devices", "empty");
  if (welcome.devices().size() > kMaxDevices) {
    return BadField("Welcome.devices", absl::StrCat(welcome.devices().size(), " entries"));
  }
  for (int i = 0; i < welcome.devices().size(); ++i) {
    const DeviceInfo& device = welcome.devices(i);
    if (device.id() != i) {
      return BadEntry("Welcome.devices", i, absl::StrCat("id ", device.id(), " is out of order"));
    }
    if (device.island() < 0 || device.host() < 0 || device.local() < 0) {
      return BadEntry("Welcome.devices", i, "a negative place");
    }
  }
  SHARDWAY_RETURN_IF_ERROR(topology::ParseLinkPrices(welcome.link_prices()).status());
  if (welcome.arena_bytes() == 0) return BadField("Welcome.arena_bytes", "0");
  return absl::OkStatus();
}

absl::Status Check(const Compiled& compiled) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Compiled.program", compiled.program(), kMaxLocalId));
  SHARDWAY_RETURN_IF_ERROR(CheckStatus("Compiled.status", compiled.status()));
  const int num_results = compiled.results().size();
  if (compiled.parameters().size() > kMaxValuesPerProgram || num_results > kMaxValuesPerProgram) {
    return BadField("Compiled", "too many parameters or results");
  }
  for (const BoundaryProto& parameter : compiled.parameters()) {
    SHARDWAY_RETURN_IF_ERROR(CheckBoundary("Compiled.parameters", parameter, num_results));
  }
  for (const BoundaryProto& result : compiled.results()) {
    SHARDWAY_RETURN_IF_ERROR(CheckBoundary("Compiled.results", result, num_results));
  }
  if (compiled.inspections().size() > kMaxValuesPerProgram) {
    return BadField("Compiled.inspections", "too many");
  }
  return absl::OkStatus();
}

absl::Status Check(const Done& done) {
  SHARDWAY_RETURN_IF_ERROR(CheckIds("Done.seqs", done.seqs(), kAnyId));
  for (const Done::Failure& failure : done.failures()) {
    SHARDWAY_RETURN_IF_ERROR(CheckId("Done.failures.seq", failure.seq(), kAnyId));
    SHARDWAY_RETURN_IF_ERROR(CheckFailure("Done.failures.status", failure.status()));
  }
  return absl::OkStatus();
}

absl::Status Check(const Callback& callback, const SessionLimits& limits) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("Callback.call", callback.call(), kAnyId));
  if (callback.device() < 0 || callback.device() >= limits.num_devices) {
    return BadField("Callback.device", absl::StrCat(callback.device(), " is no device"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ClientMessage& message, const SessionLimits& limits) {
  switch (message.kind_case()) {
    case ClientMessage::kHello:
      return Check(message.hello());
    case ClientMessage::kPut:
      return Check(message.put(), limits);
    case ClientMessage::kAssemble:
      return Check(message.assemble());
    case ClientMessage::kCopy:
      return Check(message.copy(), limits);
    case ClientMessage::kCompile:
      return Check(message.compile(), limits);
    case ClientMessage::kRun:
      return Check(message.run());
    case ClientMessage::kRead:
      return Check(message.read(), limits);
    case ClientMessage::kFree:
      return Check(message.free());
    case ClientMessage::kCallbackReturn:
      return Check(message.callback_return());
    case ClientMessage::kPing:
      return absl::OkStatus();
    case ClientMessage::kCancelRead:
      return CheckId("ClientMessage.cancel_read", message.cancel_read(), kAnyId);
    case ClientMessage::kMemoryStats:
      SHARDWAY_RETURN_IF_ERROR(
          CheckId("MemoryStatsRequest.request", message.memory_stats().request(), kAnyId));
      if (const int device = message.memory_stats().device();
          device < 0 || device >= limits.num_devices) {
        return BadField("MemoryStatsRequest.device", absl::StrCat(device));
      }
      return absl::OkStatus();
    case ClientMessage::KIND_NOT_SET:
      break;
  }
  return BadField("ClientMessage.kind", "empty or unknown");
}

absl::Status Validate(const ServerMessage& message, const SessionLimits& limits) {
  switch (message.kind_case()) {
    case ServerMessage::kWelcome:
      return Check(message.welcome());
    case ServerMessage::kCompiled:
      return Check(message.compiled());
    case ServerMessage::kDone:
      return Check(message.done());
    case ServerMessage::kReadDone:
      SHARDWAY_RETURN_IF_ERROR(CheckId("ReadDone.request", message.read_done().request(), kAnyId));
      return CheckStatus("ReadDone.status", message.read_done().status());
    case ServerMessage::kCallback:
      return Check(message.callback(), limits);
    case ServerMessage::kPong:
      return absl::OkStatus();
    case ServerMessage::kGoodbye:
      return CheckStatus("ServerMessage.goodbye", message.goodbye());
    case ServerMessage::kMemoryStats:
      return CheckId("MemoryStats.request", message.memory_stats().request(), kAnyId);
    case ServerMessage::KIND_NOT_SET:
      break;
  }
  return BadField("ServerMessage.kind", "empty or unknown");
}

}  // namespace shardway::wire
