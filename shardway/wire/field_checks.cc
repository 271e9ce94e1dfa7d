#include "shardway/wire/field_checks.h"

#include <vector>

#include "shardway/base/element_type.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"

namespace shardway::wire {
namespace {

constexpr uint64_t kMaxShardBytes = uint64_t{1} << 48;
constexpr int kMaxStatusCode = 16;  // UNAUTHENTICATED, the last of absl's

std::string Name(std::string_view field, std::string_view part) {
  return absl::StrCat(std::string(field), ".", std::string(part));
}

}  // namespace

absl::Status BadField(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": ", std::string(why)));
}

absl::Status BadEntry(std::string_view field, int index, std::string_view why) {
  return BadField(absl::StrCat(std::string(field), "[", index, "]"), why);
}

absl::Status CheckId(std::string_view field, uint64_t id, uint64_t max) {
  if (id != 0 && id <= max) return absl::OkStatus();
  return BadField(field, absl::StrCat(id, " is no id"));
}

absl::Status CheckDevices(std::string_view field, const IntList& devices, int num_devices) {
  if (devices.empty()) return BadField(field, "empty");
  if (devices.size() > kMaxDevices) {
    return BadField(field, absl::StrCat(devices.size(), " entries, at most ", kMaxDevices));
  }
  for (int i = 0; i < devices.size(); ++i) {
    if (devices[i] < 0 || devices[i] >= num_devices) {
      return BadEntry(field, i, absl::StrCat(devices[i], " is no device; there are ", num_devices));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDistinctDevices(std::string_view field, const IntList& devices, int num_devices) {
  SHARDWAY_RETURN_IF_ERROR(CheckDevices(field, devices, num_devices));
  std::vector<bool> seen(num_devices);
  for (int i = 0; i < devices.size(); ++i) {
    if (seen[devices[i]]) {
      return BadEntry(field, i, absl::StrCat("device ", devices[i], " is there twice"));
    }
    seen[devices[i]] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(std::string_view field, ArenaRange range, uint64_t arena_bytes) {
  if (range.offset <= arena_bytes && range.size <= arena_bytes - range.offset) {
    return absl::OkStatus();
  }
  return BadField(field, absl::StrCat(range.size, " bytes at ", range.offset,
                                      " are outside the arena of ", arena_bytes, " bytes"));
}

absl::Status CheckStatus(std::string_view field, const StatusProto& status) {
  if (status.code() >= 0 && status.code() <= kMaxStatusCode) return absl::OkStatus();
  return BadField(Name(field, "code"), absl::StrCat(status.code(), " is no status code"));
}

absl::Status CheckFailure(std::string_view field, const StatusProto& status) {
  if (status.code() == 0) return BadField(Name(field, "code"), "a failure can't be OK");
  return CheckStatus(field, status);
}

absl::Status CheckBoundary(std::string_view field, const BoundaryProto& boundary, int num_results) {
  if (!boundary.is_token()) {
    auto bytes = ShardBytes(boundary.element(), boundary.local_dims());
    if (!bytes.ok())
      return BadField(Name(field, "local_dims"), std::string(bytes.status().message()));
  }
  for (int64_t dim : boundary.global_dims()) {
    if (dim < 0) return BadField(Name(field, "global_dims"), absl::StrCat(dim, " is negative"));
  }
  if (boundary.alias_result() < -1 || boundary.alias_result() >= std::max(num_results, 1)) {
    return BadField(Name(field, "alias_result"),
                    absl::StrCat(boundary.alias_result(), "; there are ", num_results, " results"));
  }
  return absl::OkStatus();
}

absl::Status CheckPut(const PutFields& put, int num_devices, uint64_t arena_bytes) {
  auto bytes = ShardBytes(put.element, put.shard_dims);
  if (!bytes.ok())
    return BadField(Name(put.name, "shard_dims"), std::string(bytes.status().message()));
  SHARDWAY_RETURN_IF_ERROR(CheckDevices(Name(put.name, "devices"), put.devices, num_devices));
  const int shards = put.devices.size();
  if (!put.offsets.empty()) {
    if (put.offsets.size() != shards) {
      return BadField(Name(put.name, "offsets"),
                      absl::StrCat(put.offsets.size(), " entries for ", shards, " devices"));
    }
    for (uint64_t offset : put.offsets) {
      SHARDWAY_RETURN_IF_ERROR(
          CheckBlock(Name(put.name, "offsets"), {offset, *bytes}, arena_bytes));
    }
    return absl::OkStatus();
  }
  if (put.inline_shard.size() != shards) {
    return BadField(Name(put.name, "inline_shard"),
                    absl::StrCat(put.inline_shard.size(), " entries for ", shards, " devices"));
  }
  if (put.inline_data.size() > kMaxInlineBytes) {
    return BadField(Name(put.name, "inline_data"),
                    absl::StrCat(put.inline_data.size(), " bytes, at most ", kMaxInlineBytes));
  }
  for (int i = 0; i < shards; ++i) {
    // Does not overflow: shards are below 2^48 bytes, and so few fit that the index is checked
    // first.
    const uint64_t index = put.inline_shard[i];
    if (index >= kMaxDevices || (index + 1) * *bytes > put.inline_data.size()) {
      return BadEntry(Name(put.name, "inline_shard"), i,
                      absl::StrCat(index, " is beyond inline_data of ", put.inline_data.size(),
                                   " bytes, ", *bytes, " each"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ShardBytes(uint32_t element, absl::Span<const int64_t> dims) {
  if (element == 0 || element >= static_cast<uint32_t>(kNumElementTypes)) {
    return absl::InvalidArgumentError(absl::StrCat("element type ", element, " is unknown"));
  }
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return absl::InvalidArgumentError(absl::StrCat(dims.size(), " dimensions, at most ", kMaxRank));
  }
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is negative"));
    empty |= dim == 0;
  }
  if (empty) return 0;
  uint64_t bytes = ElementBytes(static_cast<ElementType>(element));
  for (int64_t dim : dims) {
    if (static_cast<uint64_t>(dim) > kMaxShardBytes / bytes) {
      return absl::InvalidArgumentError("a shard of more than 2^48 bytes");
    }
    bytes *= static_cast<uint64_t>(dim);
  }
  return bytes;
}

void ToProto(const absl::Status& status, StatusProto* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
}

absl::Status FromProto(const StatusProto& proto) {
  const bool known = proto.code() >= 0 && proto.code() <= kMaxStatusCode;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(proto.code()) : absl::StatusCode::kUnknown,
      proto.message());
}

}  // namespace shardway::wire
