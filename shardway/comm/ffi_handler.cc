// The FFI handler of collective::kCustomCallTarget: XLA's call frame in, a filed operand out.
//
// It is written against XLA's C FFI interface directly: a device that arrives last, or whose
// partners arrive while it spins, then needs no future at all.
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/comm/communicator_impl.h"
#include "shardway/comm/ffi_version.h"
#include "shardway/comm/float_mode.h"
#include "shardway/comm/run_id.h"
#include "xla/ffi/api/c_api.h"

namespace shardway::comm {
namespace {

XLA_FFI_Error* MakeError(const XLA_FFI_Api* api, const absl::Status& status) {
  const std::string message(status.message());
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message.c_str();
  args.errc = static_cast<XLA_FFI_Error_Code>(status.code());  // both are absl's numbers
  return api->XLA_FFI_Error_Create(&args);
}

// A failed call of XLA's own interface, as a status. Takes the error.
absl::Status TakeError(const XLA_FFI_Api* api, const char* what, XLA_FFI_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  XLA_FFI_Error_GetMessage_Args message{};
  message.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  message.error = error;
  api->XLA_FFI_Error_GetMessage(&message);
  absl::Status status = absl::InternalError(absl::StrCat(what, ": ", message.message));
  XLA_FFI_Error_Destroy_Args destroy{};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return status;
}

// A call's context: XLA's frame, and the future that the call returns when its device must wait.
struct FrameContext {
  XLA_FFI_CallFrame* frame;
  XLA_FFI_Future* future = nullptr;
};

// XLA's futures. One per plugin in use; never deleted.
class XlaRuntime : public Runtime {
 public:
  explicit XlaRuntime(const XLA_FFI_Api* api) : api_(api) {}
  const XLA_FFI_Api* api() const { return api_; }

  absl::StatusOr<uintptr_t> Suspend(void* context) override {
    XLA_FFI_Future_Create_Args args{};
    args.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE;
    if (absl::Status status =
            TakeError(api_, "creating a future", api_->XLA_FFI_Future_Create(&args));
        !status.ok()) {
      return status;
    }
    static_cast<FrameContext*>(context)->future = args.future;
    return reinterpret_cast<uintptr_t>(args.future);
  }

  void Resume(uintptr_t token, const absl::Status& status) override {
    auto* future = reinterpret_cast<XLA_FFI_Future*>(token);
    if (status.ok()) {
      XLA_FFI_Future_SetAvailable_Args args{};
      args.struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE;
      args.future = future;
      (void)TakeError(api_, "completing a future", api_->XLA_FFI_Future_SetAvailable(&args));
    } else {
      XLA_FFI_Future_SetError_Args args{};
      args.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE;
      args.future = future;
      args.error = MakeError(api_, status);
      (void)TakeError(api_, "failing a future", api_->XLA_FFI_Future_SetError(&args));
    }
  }

  bool Schedule(void* context, void (*task)(void*), void* data) override {
    XLA_FFI_ThreadPool_Schedule_Args args{};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = static_cast<FrameContext*>(context)->frame->ctx;
    args.task = task;
    args.data = data;
    return TakeError(api_, "scheduling", api_->XLA_FFI_ThreadPool_Schedule(&args)).ok();
  }

 private:
  const XLA_FFI_Api* const api_;
};

XlaRuntime* RuntimeOf(const XLA_FFI_Api* api) {
  static std::atomic<XlaRuntime*> last{nullptr};
  XlaRuntime* runtime = last.load(std::memory_order_acquire);
  if (runtime != nullptr && runtime->api() == api) return runtime;
  static Mutex mutex;
  static auto& all = *new std::vector<XlaRuntime*>;
  MutexLock lock(mutex);
  for (XlaRuntime* one : all) {
    if (one->api() == api) return one;
  }
  last.store(all.emplace_back(new XlaRuntime(api)), std::memory_order_release);
  return all.back();
}

ElementType FromXla(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return ElementType::kI1;
    case XLA_FFI_DataType_S2:
      return ElementType::kI2;
    case XLA_FFI_DataType_S4:
      return ElementType::kI4;
    case XLA_FFI_DataType_S8:
      return ElementType::kI8;
    case XLA_FFI_DataType_S16:
      return ElementType::kI16;
    case XLA_FFI_DataType_S32:
      return ElementType::kI32;
    case XLA_FFI_DataType_S64:
      return ElementType::kI64;
    case XLA_FFI_DataType_U2:
      return ElementType::kUI2;
    case XLA_FFI_DataType_U4:
      return ElementType::kUI4;
    case XLA_FFI_DataType_U8:
      return ElementType::kUI8;
    case XLA_FFI_DataType_U16:
      return ElementType::kUI16;
    case XLA_FFI_DataType_U32:
      return ElementType::kUI32;
    case XLA_FFI_DataType_U64:
      return ElementType::kUI64;
    case XLA_FFI_DataType_F16:
      return ElementType::kF16;
    case XLA_FFI_DataType_BF16:
      return ElementType::kBF16;
    case XLA_FFI_DataType_F32:
      return ElementType::kF32;
    case XLA_FFI_DataType_F64:
      return ElementType::kF64;
    case XLA_FFI_DataType_C64:
      return ElementType::kC64;
    case XLA_FFI_DataType_C128:
      return ElementType::kC128;
    case XLA_FFI_DataType_F8E5M2:
      return ElementType::kF8E5M2;
    case XLA_FFI_DataType_F8E3M4:
      return ElementType::kF8E3M4;
    case XLA_FFI_DataType_F8E4M3:
      return ElementType::kF8E4M3;
    case XLA_FFI_DataType_F8E4M3FN:
      return ElementType::kF8E4M3FN;
    case XLA_FFI_DataType_F8E4M3B11FNUZ:
      return ElementType::kF8E4M3B11FNUZ;
    case XLA_FFI_DataType_F8E5M2FNUZ:
      return ElementType::kF8E5M2FNUZ;
    case XLA_FFI_DataType_F8E4M3FNUZ:
      return ElementType::kF8E4M3FNUZ;
    case XLA_FFI_DataType_F4E2M1FN:
      return ElementType::kF4E2M1FN;
    case XLA_FFI_DataType_F8E8M0FNU:
      return ElementType::kF8E8M0FNU;
    default:
      return ElementType::kInvalid;
  }
}

using Pointers = absl::InlinedVector<void*, 8>;

// Takes the buffers' addresses when they are what the specification says.
absl::Status TakeBuffers(const SitePlan& site, const char* what, int64_t count, void** buffers,
                         const std::vector<collective::Shaped>& expected, Pointers* pointers) {
  if (count != static_cast<int64_t>(expected.size())) {
    return absl::InvalidArgumentError(absl::StrCat(site.spec.ToString(), " at ", site.spec.location,
                                                   " was called with ", count, " ", what, "s"));
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    const collective::Shaped& shape = expected[i];
    if (FromXla(buffer->dtype) != shape.element ||
        buffer->rank != static_cast<int64_t>(shape.dims.size()) ||
        !std::equal(shape.dims.begin(), shape.dims.end(), buffer->dims)) {
      return absl::InvalidArgumentError(
          absl::StrCat(site.spec.ToString(), " at ", site.spec.location, ": ", what, " ", i,
                       " is XLA type ", static_cast<int>(buffer->dtype), "[",
                       absl::StrJoin(absl::MakeConstSpan(buffer->dims, buffer->rank), ","),
                       "], not ", shape.ToString()));
    }
    pointers->push_back(buffer->data);
  }
  return absl::OkStatus();
}

// The attribute `site`. XLA sorts attributes by name; there are two.
std::optional<int32_t> SiteOf(const XLA_FFI_Attrs& attrs) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != "site" ||
        attrs.types[i] != XLA_FFI_AttrType_SCALAR) {
      continue;
    }
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    if (scalar->dtype == XLA_FFI_DataType_S32) return *static_cast<const int32_t*>(scalar->value);
  }
  return std::nullopt;
}

absl::StatusOr<Outcome> FileFrame(FrameContext* context) {
  XLA_FFI_CallFrame* frame = context->frame;
  CommunicatorImpl* communicator = CurrentCommunicator();
  if (communicator == nullptr) {
    return absl::FailedPreconditionError("a collective was called, but there is no communicator");
  }
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_RunId_Get_Args run{};
  run.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE;
  run.ctx = frame->ctx;
  if (XLA_FFI_Error* error = api->XLA_FFI_RunId_Get(&run)) {
    return TakeError(api, "asking for the run id", error);
  }
  const std::optional<int32_t> index = SiteOf(frame->attrs);
  if (!index.has_value()) {
    return absl::InvalidArgumentError("a collective was called without its attribute 'site'");
  }
  const auto [launch_key, ordinal] = ParseRunId(run.run_id);
  const auto [launch, site] = communicator->FindSite(launch_key, *index);
  if (site == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("collective at site ", *index, " on device ordinal ", ordinal, ": launch ",
                     launch_key, " is not open on this host or has no such site"));
  }
  Pointers operands, results;
  absl::Status status = TakeBuffers(*site, "operand", frame->args.size, frame->args.args,
                                    site->spec.operands, &operands);
  if (status.ok()) {
    status = TakeBuffers(*site, "result", frame->rets.size, frame->rets.rets, site->spec.results,
                         &results);
  }
  if (!status.ok()) {
    communicator->AbortLaunch(launch, status);
    return status;
  }
  return communicator->File({.launch = launch,
                             .ordinal = ordinal,
                             .site = *index,
                             .operands = operands,
                             .results = results,
                             .runtime = RuntimeOf(api),
                             .context = context});
}

XLA_FFI_Error* HandleCollective(XLA_FFI_CallFrame* frame) {
  if (XLA_FFI_Metadata* metadata = MetadataOf(frame)) {
    AnswerVersion(frame, metadata);
    metadata->traits = 0;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  FrameContext context{frame};
  const absl::StatusOr<Outcome> outcome = FileFrame(&context);
  if (!outcome.ok()) return MakeError(frame->api, outcome.status());
  if (*outcome == Outcome::kPending) frame->future = context.future;
  return nullptr;
}

}  // namespace

void* CollectiveHandler() { return reinterpret_cast<void*>(&HandleCollective); }

}  // namespace shardway::comm
