// Devices of one host, through a PJRT C-API plugin or a fake (for tests and ThreadSanitizer, which
// cannot see into the plugin). The rest of the worker knows only this interface.
//
// Buffers are reference-counted handles on device memory; they may be shared between arrays. All
// functions are thread-safe unless said otherwise. No exception crosses this interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/element_type.h"

namespace shardway::device {

class Buffer {
 public:
  virtual ~Buffer() = default;  // frees the device memory
  virtual ElementType element() const = 0;
  virtual absl::Span<const int64_t> dims() const = 0;
  virtual size_t num_bytes() const = 0;  // of the dense row-major form
  // Blocks until the buffer's contents are there; the error of the computation that should have
  // made them.
  virtual absl::Status Await() = 0;
  // Copies to host memory, dense row-major. Blocks. Not on an executor thread.
  virtual absl::Status ToHost(void* destination, size_t size) = 0;
};

// A compiled per-device program; runs on any device of the client.
class Executable {
 public:
  virtual ~Executable() = default;

  struct Launch {
    int device = 0;  // local ordinal
    int32_t launch_id = 0;
    absl::Span<Buffer* const> arguments;
    // Indices of arguments whose memory must not be reused though the program donates them.
    absl::Span<const int64_t> non_donatable;
  };
  // Blocks until the program has ended on this device (design decision 9). On an error nothing is
  // in `results`; arguments donated to a run that did not start are still whole (`*consumed` tells:
  // true once donated inputs are gone).
  virtual absl::Status Execute(const Launch& launch, std::vector<std::unique_ptr<Buffer>>* results,
                               bool* consumed) = 0;
};

class Client {
 public:
  virtual ~Client() = default;
  virtual const std::string& platform_name() const = 0;
  virtual const std::string& platform_version() const = 0;
  virtual int num_devices() const = 0;

  // `text`: StableHLO for one replica, one partition. `xla_options`: the user's serialized
  // CompileOptionsProto (may be empty), of which debug and environment options are passed on.
  virtual absl::StatusOr<std::unique_ptr<Executable>> Compile(std::string_view text,
                                                              std::string_view xla_options) = 0;

  // `data`: dense row-major; copied before the call returns.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> FromHost(int device, ElementType element,
                                                           absl::Span<const int64_t> dims,
                                                           const void* data) = 0;
  // Device to device inside this host.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> CopyTo(Buffer& source, int device) = 0;

  // Registers an FFI handler (XLA_FFI_Handler*) under a custom call's name.
  virtual absl::Status RegisterHandler(std::string_view target, void* handler) = 0;
};

// Loads a PJRT plugin and makes a client with `num_devices` devices. `options`: "name=value" create
// options ("asynchronous=false"). Once per process and path: XLA does not unload.
absl::StatusOr<std::unique_ptr<Client>> LoadPjrtPlugin(const std::string& path, int num_devices,
                                                       absl::Span<const std::string> options);

}  // namespace shardway::device
