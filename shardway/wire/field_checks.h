// The checks that validate_session.cc and validate_worker.cc are made of. Each returns
// INVALID_ARGUMENT naming the field ("Run.results[3]") when the value is bad.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shardway/wire/session.pb.h"

namespace shardway::wire {

// A block where bulk bytes lie: 0 <= offset, offset + size <= arena_bytes.
struct ArenaRange {
  uint64_t offset;
  uint64_t size;
};

absl::Status BadField(std::string_view field, std::string_view why);
absl::Status BadEntry(std::string_view field, int index, std::string_view why);

// Ids from 1 to `max` (kMaxLocalId for a client's own ids, no limit between controller and
// workers).
absl::Status CheckId(std::string_view field, uint64_t id, uint64_t max);
template <typename Ids>
absl::Status CheckIds(std::string_view field, const Ids& ids, uint64_t max) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] == 0 || ids[i] > max) {
      return BadEntry(field, i, absl::StrCat(ids[i], " is no id"));
    }
  }
  return absl::OkStatus();
}

using IntList = google::protobuf::RepeatedField<int32_t>;
// Global device ids, each below `num_devices`; at least one.
absl::Status CheckDevices(std::string_view field, const IntList& devices, int num_devices);
// The same, and no device twice.
absl::Status CheckDistinctDevices(std::string_view field, const IntList& devices, int num_devices);

absl::Status CheckBlock(std::string_view field, ArenaRange range, uint64_t arena_bytes);
absl::Status CheckStatus(std::string_view field, const StatusProto& status);
// A status that says that something failed.
absl::Status CheckFailure(std::string_view field, const StatusProto& status);
absl::Status CheckBoundary(std::string_view field, const BoundaryProto& boundary, int num_results);

// PutArray and HostPut have the same fields.
struct PutFields {
  std::string_view name;
  uint32_t element;
  const google::protobuf::RepeatedField<int64_t>& shard_dims;
  const IntList& devices;
  const google::protobuf::RepeatedField<uint64_t>& offsets;
  const std::string& inline_data;
  const google::protobuf::RepeatedField<uint32_t>& inline_shard;
};
absl::Status CheckPut(const PutFields& put, int num_devices, uint64_t arena_bytes);

}  // namespace shardway::wire
