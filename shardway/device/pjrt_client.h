// device::Client over a PJRT plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardway/device/device.h"
#include "shardway/device/pjrt_api.h"

namespace shardway::device {

// How many devices of XLA's CPU client our `num_devices` share: no more than there are cores, as
// far as it lets. Its pool has a thread for each of its devices; threads beyond the cores only take
// each other's time and caches (the demo's 8 devices on 2 cores lose a seventh of their speed).
int CpuDevicesFor(int num_devices);

// Its devices are the plugin's, or on CPU each of the plugin's is several of them.
class PjrtClient : public Client {
 public:
  static absl::StatusOr<std::unique_ptr<PjrtClient>> Create(const PjrtApi* api, int num_devices,
                                                            absl::Span<const std::string> options);
  ~PjrtClient() override;

  const std::string& platform_name() const override { return platform_name_; }
  const std::string& platform_version() const override { return platform_version_; }
  int num_devices() const override { return static_cast<int>(devices_.size()); }
  absl::StatusOr<std::unique_ptr<Executable>> Compile(std::string_view text,
                                                      std::string_view xla_options) override;
  absl::StatusOr<std::unique_ptr<Buffer>> FromHost(int device, ElementType element,
                                                   absl::Span<const int64_t> dims,
                                                   const void* data) override;
  absl::StatusOr<std::unique_ptr<Buffer>> CopyTo(Buffer& source, int device) override;
  absl::Status RegisterHandler(std::string_view target, void* handler) override;

  const PjrtApi& api() const { return *api_; }
  // The PJRT device of a local ordinal that is known to be in range.
  PJRT_Device* device(int ordinal) const { return devices_[ordinal]; }

 private:
  explicit PjrtClient(const PjrtApi* api) : api_(api) {}
  absl::Status Start(int num_devices, absl::Span<const std::string> options);
  absl::Status CheckDevice(int device) const;

  const PjrtApi* api_;
  PJRT_Client* client_ = nullptr;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace shardway::device
