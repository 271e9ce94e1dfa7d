#include "shardway/worker/program_loader.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"
#include "shardway/device/pjrt_compile_options.h"
#include "shardway/wire/validate.h"
#include "shardway/worker/host_callback.h"

namespace shardway::worker {
namespace {

constexpr size_t kCachedExecutables = 256;
constexpr int kCompileThreads = 2;

// A program's text without the table of locations behind it: what XLA makes of it depends on no
// more, so that a function that the user jits in two places is compiled once. Its profile then
// shows the place that came first.
std::string_view WithoutLocations(std::string_view text) {
  return text.substr(0, text.find("\n#loc"));
}

absl::Status Annotate(const Program& program, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("program ", program.name(), ": ", status.message()));
}

}  // namespace

ProgramLoader::ProgramLoader(device::Client* devices, comm::Communicator* comm, Outbox* outbox)
    : devices_(devices),
      comm_(comm),
      outbox_(outbox),
      cache_(kCachedExecutables),
      pool_("compile", kCompileThreads) {}

void ProgramLoader::Load(std::shared_ptr<Program> program, wire::LoadProgram message) {
  auto shared = std::make_shared<wire::LoadProgram>(std::move(message));
  pool_.Submit([this, program = std::move(program), message = std::move(shared)] {
    const TimePoint start = Clock::Real()->Now();
    auto comm = PrepareCollectives(*program, *message);
    absl::StatusOr<Program::Loaded> loaded =
        comm.ok() ? Compile(*program, *message) : absl::StatusOr<Program::Loaded>(comm.status());
    const absl::Status status = Annotate(*program, loaded.status());
    if (loaded.ok()) {
      loaded->comm = *std::move(comm);
      program->SetLoaded(*std::move(loaded));
    } else {
      program->SetFailed(status, comm.ok() ? *comm : nullptr);
    }
    LOG_INFO(
        "program {} ({}) ready after {} ms: {}", program->name(), program->id().value,
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::Real()->Now() - start).count(),
        status.ToString());
    wire::FromWorker reply;
    reply.mutable_loaded()->set_program(program->id().value);
    wire::ToProto(status, reply.mutable_loaded()->mutable_status());
    outbox_->Send(reply);
  });
}

absl::StatusOr<std::shared_ptr<const comm::ProgramComm>> ProgramLoader::PrepareCollectives(
    const Program& program, const wire::LoadProgram& message) {
  if (message.manifest().empty()) return nullptr;
  SHARDWAY_ASSIGN_OR_RETURN(std::vector<collective::Spec> specs,
                            collective::Parse(message.manifest()));
  if (specs.empty()) return nullptr;
  return comm_->Prepare(std::move(specs), program.devices());
}

absl::StatusOr<Program::Loaded> ProgramLoader::Compile(const Program& program,
                                                       const wire::LoadProgram& message) {
  Program::Loaded loaded;
  // Which devices it is for makes no difference: each runs the same executable.
  SHARDWAY_ASSIGN_OR_RETURN(const std::string options,
                            device::PerDeviceCompileOptions(message.xla_options()));
  const std::string key =
      absl::StrCat(options.size(), ":", options, std::string(WithoutLocations(message.text())));
  SHARDWAY_ASSIGN_OR_RETURN(loaded.executable, cache_.Get(key, [&]() -> CompileCache::Result {
    SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<device::Executable> executable,
                              devices_->Compile(message.text(), options));
    return std::shared_ptr<device::Executable>(std::move(executable));
  }));
  loaded.hidden.resize(devices_->num_devices());
  for (int device : program.participants()) {
    SHARDWAY_ASSIGN_OR_RETURN(loaded.hidden[device], HiddenArguments(program, message, device));
  }
  loaded.has_callbacks = message.text().find(kHostCallbackTarget) != std::string::npos;
  return loaded;
}

absl::StatusOr<std::vector<std::unique_ptr<device::Buffer>>> ProgramLoader::HiddenArguments(
    const Program& program, const wire::LoadProgram& message, int device) {
  std::vector<std::unique_ptr<device::Buffer>> hidden;
  if (message.uses_coordinates()) {
    const int logical = program.LogicalId(device);
    const int32_t coordinates[] = {logical / program.num_partitions(),
                                   logical % program.num_partitions()};
    constexpr int64_t kDims[] = {2};
    SHARDWAY_ASSIGN_OR_RETURN(hidden.emplace_back(),
                              devices_->FromHost(device, ElementType::kI32, kDims, coordinates));
  }
  for (const auto& constant : message.constants()) {
    SHARDWAY_ASSIGN_OR_RETURN(const uint64_t bytes,
                              wire::ShardBytes(constant.element(), constant.dims()));
    if (bytes != constant.data().size()) {
      return absl::InvalidArgumentError(absl::StrCat("a hidden constant of ", bytes,
                                                     " bytes came with ", constant.data().size()));
    }
    SHARDWAY_ASSIGN_OR_RETURN(
        hidden.emplace_back(),
        devices_->FromHost(device, static_cast<ElementType>(constant.element()), constant.dims(),
                           constant.data().data()));
  }
  return hidden;
}

}  // namespace shardway::worker
