// Layouts: every array is dense row-major, and says so in XLA's text form ("{1,0}").
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/pjrt_plugin/array.h"
#include "shardway/pjrt_plugin/error.h"
#include "shardway/pjrt_plugin/executable.h"
#include "shardway/pjrt_plugin/extensions.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace shardway::pjrt_plugin {
namespace {

using MemoryLayout = PJRT_Layouts_MemoryLayout;

struct DestroyArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  MemoryLayout* layout;
};

struct SerializedLayout;
struct SerializeArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  MemoryLayout* layout;
  const char* serialized_bytes;               // out
  size_t serialized_bytes_size;               // out
  SerializedLayout* serialized_layout;        // out, backs the bytes
  void (*deleter)(SerializedLayout* layout);  // out
};

struct ClientDefaultLayoutArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  MemoryLayout* layout;  // out
};

struct BufferLayoutArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  MemoryLayout* layout;  // out
};

struct TopologyDefaultLayoutArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  MemoryLayout* layout;  // out
};

struct ExecutableLayoutsArgs {  // of results and of parameters alike
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t count;            // out
  MemoryLayout** layouts;  // out, lives as long as the executable
};

struct Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*destroy)(DestroyArgs*);
  PJRT_Error* (*serialize)(SerializeArgs*);
  PJRT_Error* (*client_default)(ClientDefaultLayoutArgs*);
  PJRT_Error* (*buffer)(BufferLayoutArgs*);
  PJRT_Error* (*topology_default)(TopologyDefaultLayoutArgs*);
  PJRT_Error* (*results)(ExecutableLayoutsArgs*);
  PJRT_Error* (*parameters)(ExecutableLayoutsArgs*);
};

// Layouts depend on the rank alone: one object for each, never destroyed.
MemoryLayout* LayoutOfRank(size_t rank) {
  static constexpr size_t kMaxRank = 64;
  static MemoryLayout* const layouts = [] {
    auto* made = new MemoryLayout[kMaxRank + 1];
    for (size_t r = 0; r <= kMaxRank; ++r) {
      std::string text = "{";
      for (size_t d = r; d-- > 0;) {
        absl::StrAppend(&text, d, d > 0 ? "," : "");
      }
      made[r].text = text + "}";
    }
    return made;
  }();
  return &layouts[std::min(rank, kMaxRank)];
}

PJRT_Error* Destroy(DestroyArgs*) { return nullptr; }

PJRT_Error* Serialize(SerializeArgs* args) {
  args->serialized_bytes = args->layout->text.data();
  args->serialized_bytes_size = args->layout->text.size();
  args->serialized_layout = nullptr;
  args->deleter = [](SerializedLayout*) {};
  return nullptr;
}

PJRT_Error* ClientDefault(ClientDefaultLayoutArgs* args) {
  args->layout = LayoutOfRank(args->num_dims);
  return nullptr;
}

PJRT_Error* OfBuffer(BufferLayoutArgs* args) {
  args->layout = LayoutOfRank(args->buffer->array->shape().dims.size());
  return nullptr;
}

PJRT_Error* TopologyDefault(TopologyDefaultLayoutArgs* args) {
  args->layout = LayoutOfRank(args->num_dims);
  return nullptr;
}

PJRT_Error* OfResults(ExecutableLayoutsArgs* args) {
  const ProgramInfo& info = *args->executable->info;
  args->layouts = const_cast<MemoryLayout**>(info.result_layouts.data());
  args->count = info.result_layouts.size();
  return nullptr;
}

PJRT_Error* OfParameters(ExecutableLayoutsArgs* args) {
  const ProgramInfo& info = *args->executable->info;
  args->layouts = const_cast<MemoryLayout**>(info.parameter_layouts.data());
  args->count = info.parameter_layouts.size();
  return nullptr;
}

}  // namespace

void FillLayouts(ProgramInfo& info) {
  for (const client::Boundary& parameter : info.program.parameters) {
    info.parameter_layouts.push_back(LayoutOfRank(parameter.local_dims.size()));
  }
  for (const ShardShapeRef& shape : info.result_shapes) {
    info.result_layouts.push_back(LayoutOfRank(shape->dims.size()));
  }
}

PJRT_Extension_Base* LayoutsExtension(PJRT_Extension_Base* next) {
  static Extension extension{
      .base = {sizeof(Extension), PJRT_Extension_Type_Layouts, nullptr},
      .destroy = Destroy,
      .serialize = Serialize,
      .client_default = ClientDefault,
      .buffer = OfBuffer,
      .topology_default = TopologyDefault,
      .results = OfResults,
      .parameters = OfParameters,
  };
  extension.base.next = next;
  return &extension.base;
}

}  // namespace shardway::pjrt_plugin
