// A loaded PJRT plugin: its function table, its errors as absl::Status, its extensions.
//
// struct_size discipline: an argument struct is made by SHARDWAY_PJRT_ARGS, which zeroes it and
// sets the size that *our* header knows; a plugin of another version reads only what both sides
// know.
#pragma once

#include <pjrt_c_api.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// SHARDWAY_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
#define SHARDWAY_PJRT_ARGS(name, Type) \
  Type name = {};                      \
  name.struct_size = Type##_STRUCT_SIZE

namespace shardway::device {

// Thread-safe; lives as long as the process (XLA does not unload).
class PjrtApi {
 public:
  // Opens the shared library, checks its version and initializes it. The same path gives the same
  // object. NOT_FOUND when it can't be opened, FAILED_PRECONDITION when it is no PJRT plugin of
  // ours.
  static absl::StatusOr<const PjrtApi*> Load(const std::string& path);

  const PJRT_Api* operator->() const { return api_; }
  const std::string& path() const { return path_; }
  int minor_version() const { return api_->pjrt_api_version.minor_version; }

  // Takes ownership of `error`; null is OK. `what` says what was being done, for the message.
  absl::Status ToStatus(PJRT_Error* error, std::string_view what) const;
  // Waits for `event`, destroys it and gives its error. Null is OK.
  absl::Status Await(PJRT_Event* event, std::string_view what) const;

  // True when the table has the function that begins at `offset` (newer functions are at its end).
  bool Has(size_t offset) const { return api_->struct_size >= offset + sizeof(void*); }

  // The plugin's extension of that type; null when it has none.
  const PJRT_Extension_Base* FindExtension(int type) const;

  // Registers an FFI handler for `platform` ("Host", "CUDA").
  absl::Status RegisterFfiHandler(std::string_view target, void* handler,
                                  std::string_view platform) const;

 private:
  PjrtApi(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}

  std::string path_;
  const PJRT_Api* api_;
};

}  // namespace shardway::device
