#include "shardway/topology/slice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::topology {

absl::StatusOr<const Slice*> SliceTable::Intern(absl::Span<const int> devices) {
  std::vector<int> key(devices.begin(), devices.end());
  if (auto it = by_devices_.find(key); it != by_devices_.end()) {
    return it->second;
  }
  if (key.empty()) {
    return absl::InvalidArgumentError("an empty list of devices");
  }
  for (int device : key) {
    if (!topology_.HasDevice(device)) {
      return absl::InvalidArgumentError(absl::StrCat("there is no device ", device,
                                                     ": this cluster has devices 0 to ",
                                                     topology_.num_devices() - 1));
    }
  }
  std::vector<int> sorted = key;
  std::sort(sorted.begin(), sorted.end());
  if (size() == kMaxSlices) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxSlices, " different lists of devices are in use"));
  }
  auto slice = std::make_unique<Slice>();
  slice->index = size();
  for (int device : sorted) {
    const int host = topology_.HostOf(device);
    if (slice->hosts.empty() || slice->hosts.back() != host) {
      slice->hosts.push_back(host);
    }
  }
  slice->devices = key;
  const Slice* result = slice.get();
  slices_.push_back(std::move(slice));
  by_devices_.emplace(std::move(key), result);
  return result;
}

}  // namespace shardway::topology
