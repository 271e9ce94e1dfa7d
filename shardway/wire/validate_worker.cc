#include <cmath>

#include "shardway/base/status_macros.h"
#include "shardway/wire/field_checks.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"

namespace shardway::wire {
namespace {

constexpr uint64_t kAnyId = ~uint64_t{0};

// ---- controller → worker ----

absl::Status Check(const Configure& configure) {
  const int num_devices = configure.hosts_of_devices().size();
  if (num_devices > kMaxDevices) {
    return BadField("Configure.hosts_of_devices", absl::StrCat(num_devices, " entries"));
  }
  SHARDWAY_RETURN_IF_ERROR(
      CheckDistinctDevices("Configure.devices", configure.devices(), num_devices));
  if (configure.host() < 0) {
    return BadField("Configure.host", absl::StrCat(configure.host(), " is negative"));
  }
  for (int device = 0; device < num_devices; ++device) {
    if (configure.hosts_of_devices(device) < 0 ||
        configure.hosts_of_devices(device) >= kMaxDevices) {
      return BadEntry("Configure.hosts_of_devices", device,
                      absl::StrCat(configure.hosts_of_devices(device), " is no host"));
    }
  }
  for (int device : configure.devices()) {
    if (configure.hosts_of_devices(device) != configure.host()) {
      return BadField("Configure.devices", absl::StrCat("device ", device, " is on host ",
                                                        configure.hosts_of_devices(device)));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const LoadProgram& load, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("LoadProgram.program", load.program(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(
      CheckDistinctDevices("LoadProgram.devices", load.devices(), num_devices));
  if (load.num_partitions() < 1 || load.devices().size() % load.num_partitions() != 0) {
    return BadField("LoadProgram.num_partitions",
                    absl::StrCat(load.num_partitions(), " on ", load.devices().size(), " devices"));
  }
  for (const BoundaryProto& parameter : load.parameters()) {
    SHARDWAY_RETURN_IF_ERROR(
        CheckBoundary("LoadProgram.parameters", parameter, load.results().size()));
  }
  for (const BoundaryProto& result : load.results()) {
    SHARDWAY_RETURN_IF_ERROR(CheckBoundary("LoadProgram.results", result, load.results().size()));
  }
  for (int i = 0; i < load.constants().size(); ++i) {
    const LoadProgram::Constant& constant = load.constants(i);
    SHARDWAY_ASSIGN_OR_RETURN(const uint64_t bytes,
                              ShardBytes(constant.element(), constant.dims()));
    if (constant.data().size() != bytes) {
      return BadEntry("LoadProgram.constants", i,
                      absl::StrCat(constant.data().size(), " bytes where its shape has ", bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const HostRun& run) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostRun.run", run.run(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostRun.program", run.program(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("HostRun.arguments", run.arguments(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("HostRun.results", run.results(), kAnyId));
  for (int i = 0; i < run.keep().size(); ++i) {
    if (run.keep(i) >= static_cast<uint32_t>(run.arguments().size())) {
      return BadEntry(
          "HostRun.keep", i,
          absl::StrCat(run.keep(i), "; there are ", run.arguments().size(), " arguments"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const HostPoison& poison) {
  SHARDWAY_RETURN_IF_ERROR(CheckIds("HostPoison.arrays", poison.arrays(), kAnyId));
  return CheckFailure("HostPoison.status", poison.status());
}

absl::Status CheckProbe(std::string_view field, uint32_t launch) {
  if (launch >= 1 && launch <= kMaxLinkProbes) return absl::OkStatus();
  return BadField(field, absl::StrCat(launch, " is none of 1 to ", kMaxLinkProbes));
}

absl::Status Check(const MeasureLink& probe, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckProbe("MeasureLink.launch", probe.launch()));
  for (const int device : {probe.device(), probe.other()}) {
    if (device >= 0 && device < num_devices) continue;
    return BadField("MeasureLink.device", absl::StrCat("there is no device ", device));
  }
  if (probe.device() == probe.other()) {
    return BadField("MeasureLink.other", absl::StrCat(probe.other(), ", the device itself"));
  }
  return absl::OkStatus();
}

absl::Status Check(const LinkMeasured& link) {
  SHARDWAY_RETURN_IF_ERROR(CheckProbe("LinkMeasured.launch", link.launch()));
  SHARDWAY_RETURN_IF_ERROR(CheckStatus("LinkMeasured.status", link.status()));
  for (const double figure : {link.latency_s(), link.bytes_per_s()}) {
    if (figure >= 0 && std::isfinite(figure)) continue;
    return BadField("LinkMeasured", absl::StrCat(figure, " is no measurement"));
  }
  return absl::OkStatus();
}

absl::Status Check(const HostPut& put, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostPut.op", put.op(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostPut.array", put.array(), kAnyId));
  // The arena belongs to a session that the message only names by its array: see ArenaView::Block.
  return CheckPut({"HostPut", put.element(), put.shard_dims(), put.devices(), put.offsets(),
                   put.inline_data(), put.inline_shard()},
                  num_devices, kAnyId);
}

absl::Status Check(const HostAssemble& assemble, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostAssemble.op", assemble.op(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostAssemble.array", assemble.array(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckIds("HostAssemble.arrays", assemble.arrays(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckDevices("HostAssemble.devices", assemble.devices(), num_devices));
  if (assemble.arrays().size() != assemble.devices().size() ||
      assemble.shards().size() != assemble.devices().size()) {
    return BadField("HostAssemble",
                    absl::StrCat(assemble.arrays().size(), " arrays, ", assemble.shards().size(),
                                 " shards, ", assemble.devices().size(), " devices"));
  }
  return absl::OkStatus();
}

absl::Status Check(const HostCopy& copy, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostCopy.op", copy.op(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostCopy.array", copy.array(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostCopy.source", copy.source(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckDevices("HostCopy.devices", copy.devices(), num_devices));
  SHARDWAY_RETURN_IF_ERROR(
      CheckDevices("HostCopy.source_devices", copy.source_devices(), num_devices));
  if (copy.devices().size() != copy.source_devices().size()) {
    return BadField("HostCopy.devices",
                    absl::StrCat(copy.devices().size(), " entries, the source has ",
                                 copy.source_devices().size()));
  }
  return ShardBytes(copy.element(), copy.shard_dims()).status();
}

absl::Status Check(const HostRead& read) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostRead.request", read.request(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostRead.session", read.session(), kAnyId));
  return CheckId("HostRead.array", read.array(), kAnyId);
}

// ---- worker → controller ----

absl::Status Check(const HostDone& done) {
  SHARDWAY_RETURN_IF_ERROR(CheckIds("HostDone.ids", done.ids(), kAnyId));
  for (const HostDone::Failure& failure : done.failures()) {
    SHARDWAY_RETURN_IF_ERROR(CheckId("HostDone.failures.id", failure.id(), kAnyId));
    SHARDWAY_RETURN_IF_ERROR(CheckFailure("HostDone.failures.status", failure.status()));
  }
  return absl::OkStatus();
}

absl::Status Check(const HostCallback& callback, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostCallback.call", callback.call(), kAnyId));
  SHARDWAY_RETURN_IF_ERROR(CheckId("HostCallback.session", callback.session(), kAnyId));
  if (callback.device() < 0 || callback.device() >= num_devices) {
    return BadField("HostCallback.device", absl::StrCat(callback.device(), " is no device"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ToWorker& message, int num_devices) {
  switch (message.kind_case()) {
    case ToWorker::kConfigure:
      return Check(message.configure());
    case ToWorker::kSessionOpen:
      return CheckId("SessionOpen.session", message.session_open().session(), kAnyId);
    case ToWorker::kSessionClose:
      return CheckId("SessionClose.session", message.session_close().session(), kAnyId);
    case ToWorker::kLoad:
      return Check(message.load(), num_devices);
    case ToWorker::kRun:
      return Check(message.run());
    case ToWorker::kPoison:
      return Check(message.poison());
    case ToWorker::kPut:
      return Check(message.put(), num_devices);
    case ToWorker::kAssemble:
      return Check(message.assemble(), num_devices);
    case ToWorker::kCopy:
      return Check(message.copy(), num_devices);
    case ToWorker::kRead:
      return Check(message.read());
    case ToWorker::kFree:
      SHARDWAY_RETURN_IF_ERROR(CheckIds("HostFree.arrays", message.free().arrays(), kAnyId));
      return CheckIds("HostFree.programs", message.free().programs(), kAnyId);
    case ToWorker::kCallbackReturn:
      SHARDWAY_RETURN_IF_ERROR(
          CheckId("CallbackReturn.call", message.callback_return().call(), kAnyId));
      return CheckStatus("CallbackReturn.status", message.callback_return().status());
    case ToWorker::kHostLost:
      return CheckStatus("HostLost.status", message.host_lost().status());
    case ToWorker::kMeasureLink:
      return Check(message.measure_link(), num_devices);
    case ToWorker::kPing:
    case ToWorker::kShutdown:
      return absl::OkStatus();
    case ToWorker::KIND_NOT_SET:
      break;
  }
  return BadField("ToWorker.kind", "empty or unknown");
}

absl::Status Validate(const FromWorker& message, int num_devices) {
  switch (message.kind_case()) {
    case FromWorker::kReady:
      return CheckStatus("WorkerReady.status", message.ready().status());
    case FromWorker::kLoaded:
      SHARDWAY_RETURN_IF_ERROR(
          CheckId("ProgramLoaded.program", message.loaded().program(), kAnyId));
      return CheckStatus("ProgramLoaded.status", message.loaded().status());
    case FromWorker::kDone:
      return Check(message.done());
    case FromWorker::kReadDone:
      SHARDWAY_RETURN_IF_ERROR(CheckId("ReadDone.request", message.read_done().request(), kAnyId));
      return CheckStatus("ReadDone.status", message.read_done().status());
    case FromWorker::kCallback:
      return Check(message.callback(), num_devices);
    case FromWorker::kLinkMeasured:
      return Check(message.link_measured());
    case FromWorker::kPong:
      return absl::OkStatus();
    case FromWorker::KIND_NOT_SET:
      break;
  }
  return BadField("FromWorker.kind", "empty or unknown");
}

}  // namespace shardway::wire
