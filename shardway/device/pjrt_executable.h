// device::Executable over a PJRT_LoadedExecutable.
#pragma once

#include <memory>
#include <vector>

#include "shardway/device/device.h"
#include "shardway/device/pjrt_buffer.h"
#include "shardway/device/pjrt_client.h"

namespace shardway::device {

class PjrtExecutable : public Executable {
 public:
  // Takes ownership of `executable` (also when it fails). `client` outlives it.
  static absl::StatusOr<std::unique_ptr<PjrtExecutable>> Create(const PjrtClient* client,
                                                                PJRT_LoadedExecutable* executable);
  ~PjrtExecutable() override;

  absl::Status Execute(const Launch& launch, std::vector<std::unique_ptr<Buffer>>* results,
                       bool* consumed) override;

 private:
  PjrtExecutable(const PjrtClient* client, PJRT_LoadedExecutable* executable)
      : client_(client), executable_(executable) {}
  absl::Status FindResults();

  const PjrtClient* client_;
  PJRT_LoadedExecutable* executable_;
  std::vector<std::shared_ptr<const BufferShape>> results_;
};

}  // namespace shardway::device
