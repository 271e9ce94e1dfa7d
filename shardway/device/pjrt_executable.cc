#include "shardway/device/pjrt_executable.h"

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/raw_enum.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/run_id.h"
#include "shardway/device/pjrt_types.h"

namespace shardway::device {

absl::StatusOr<std::unique_ptr<PjrtExecutable>> PjrtExecutable::Create(
    const PjrtClient* client, PJRT_LoadedExecutable* executable) {
  std::unique_ptr<PjrtExecutable> made(new PjrtExecutable(client, executable));
  SHARDWAY_RETURN_IF_ERROR(made->FindResults());
  return made;
}

PjrtExecutable::~PjrtExecutable() {
  SHARDWAY_PJRT_ARGS(args, PJRT_LoadedExecutable_Destroy_Args);
  args.executable = executable_;
  const absl::Status status = client_->api().ToStatus(
      client_->api()->PJRT_LoadedExecutable_Destroy(&args), "freeing an executable");
  if (!status.ok()) LOG_ERROR("{}", status.ToString());
}

absl::Status PjrtExecutable::FindResults() {
  const PjrtApi& api = client_->api();
  SHARDWAY_PJRT_ARGS(get, PJRT_LoadedExecutable_GetExecutable_Args);
  get.loaded_executable = executable_;
  SHARDWAY_RETURN_IF_ERROR(
      api.ToStatus(api->PJRT_LoadedExecutable_GetExecutable(&get), "inspecting an executable"));

  SHARDWAY_PJRT_ARGS(types, PJRT_Executable_OutputElementTypes_Args);
  types.executable = get.executable;
  SHARDWAY_PJRT_ARGS(dims, PJRT_Executable_OutputDimensions_Args);
  dims.executable = get.executable;
  absl::Status status = api.ToStatus(api->PJRT_Executable_OutputElementTypes(&types),
                                     "inspecting an executable's results");
  if (status.ok()) {
    status = api.ToStatus(api->PJRT_Executable_OutputDimensions(&dims),
                          "inspecting an executable's results");
  }
  if (status.ok() && types.num_output_types != dims.num_outputs) {
    status = absl::InternalError("the plugin gives its executable two numbers of results");
  }
  if (status.ok()) {
    const int64_t* next = dims.dims;
    for (size_t i = 0; i < dims.num_outputs; ++i) {
      results_.push_back(BufferShape::Make(FromPjrtType(RawEnum(types.output_types[i])),
                                           std::vector<int64_t>(next, next + dims.dim_sizes[i])));
      next += dims.dim_sizes[i];
    }
  }
  SHARDWAY_PJRT_ARGS(destroy, PJRT_Executable_Destroy_Args);
  destroy.executable = get.executable;
  absl::Status destroyed =
      api.ToStatus(api->PJRT_Executable_Destroy(&destroy), "inspecting an executable");
  return status.ok() ? destroyed : status;
}

absl::Status PjrtExecutable::Execute(const Launch& launch,
                                     std::vector<std::unique_ptr<Buffer>>* results,
                                     bool* consumed) {
  const PjrtApi& api = client_->api();
  *consumed = false;
  results->clear();
  if (launch.device < 0 || launch.device >= client_->num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no device ", launch.device));
  }
  absl::InlinedVector<PJRT_Buffer*, 16> arguments(launch.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = static_cast<PjrtBuffer*>(launch.arguments[i])->get();
  }
  absl::InlinedVector<PJRT_Buffer*, 16> outputs(results_.size(), nullptr);

  SHARDWAY_PJRT_ARGS(options, PJRT_ExecuteOptions);
  options.launch_id = comm::RunIdOf(launch.launch_id, launch.device);
  options.non_donatable_input_indices = launch.non_donatable.data();
  options.num_non_donatable_input_indices = launch.non_donatable.size();

  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer** output_list = outputs.data();
  PJRT_Event* complete = nullptr;
  SHARDWAY_PJRT_ARGS(args, PJRT_LoadedExecutable_Execute_Args);
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = &complete;
  args.execute_device = client_->device(launch.device);
  absl::Status status = api.ToStatus(api->PJRT_LoadedExecutable_Execute(&args), "executing");
  if (status.ok()) status = api.Await(complete, "executing");

  results->reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr) continue;
    results->push_back(std::make_unique<PjrtBuffer>(&api, outputs[i], results_[i]));
  }
  if (status.ok()) {
    *consumed = true;
    return status;
  }
  results->clear();
  for (Buffer* argument : launch.arguments) {
    *consumed |= static_cast<PjrtBuffer*>(argument)->IsDeleted();
  }
  return status;
}

}  // namespace shardway::device
