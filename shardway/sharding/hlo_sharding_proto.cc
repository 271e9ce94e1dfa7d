// The bytes of xla.OpSharding, with the field numbers of xla_data.proto. Written by hand: one
// message with a dozen fields, read from outside.
#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::sharding {
namespace {

enum Field {
  kType = 1,
  kTileDimensions = 3,
  kTileDevices = 4,
  kTupleShardings = 5,
  kReplicateOnLastTileDim = 6,
  kLastTileDims = 8,
  kIotaReshapeDims = 9,
  kIotaTransposePerm = 10,
};
enum Type { kReplicated, kMaximal, kTuple, kOther, kManual, kUnknown, kUnreduced };
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr int kMaxDepth = 4;

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void PutInteger(std::string& out, Field field, uint64_t value) {
  PutVarint(out, field << 3 | kVarint);
  PutVarint(out, value);
}

void PutBytes(std::string& out, Field field, std::string_view bytes) {
  PutVarint(out, field << 3 | kBytes);
  PutVarint(out, bytes.size());
  out += bytes;
}

void PutPacked(std::string& out, Field field, const std::vector<int64_t>& values) {
  if (values.empty()) return;
  std::string packed;
  for (int64_t v : values) PutVarint(packed, v);
  PutBytes(out, field, packed);
}

Type TypeOf(HloSharding::Kind kind) {
  switch (kind) {
    case HloSharding::Kind::kReplicated:
      return kReplicated;
    case HloSharding::Kind::kMaximal:
      return kMaximal;
    case HloSharding::Kind::kManual:
      return kManual;
    case HloSharding::Kind::kUnreduced:
      return kUnreduced;
    case HloSharding::Kind::kUnknown:
      return kUnknown;
    case HloSharding::Kind::kTuple:
      return kTuple;
    case HloSharding::Kind::kTiled:
      return kOther;
  }
  return kReplicated;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty() || failed_; }
  bool failed() const { return failed_; }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }

  std::string_view Bytes() { return Take(Varint()); }

  // One number, or all of a packed list.
  void Numbers(uint64_t wire, std::vector<int64_t>& list) {
    if (wire == kVarint) {
      list.push_back(static_cast<int64_t>(Varint()));
    } else if (wire == kBytes) {
      Reader packed(Bytes());
      while (!packed.done()) list.push_back(static_cast<int64_t>(packed.Varint()));
      failed_ |= packed.failed();
    } else {
      failed_ = true;
    }
  }

  void Skip(uint64_t wire) {
    if (wire == kVarint) {
      Varint();
    } else if (wire == kBytes) {
      Bytes();
    } else if (wire == kFixed64) {
      Take(8);
    } else if (wire == kFixed32) {
      Take(4);
    } else {
      failed_ = true;
    }
  }

 private:
  std::string_view Take(uint64_t size) {
    if (size > bytes_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }

  std::string_view bytes_;
  bool failed_ = false;
};

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("these bytes are no OpSharding: ", std::string(what)));
}

int64_t TypeOf(HloSharding::Subgroup subgroup) {
  switch (subgroup) {
    case HloSharding::Subgroup::kManual:
      return kManual;
    case HloSharding::Subgroup::kUnreduced:
      return kUnreduced;
    case HloSharding::Subgroup::kReplicated:
      return kReplicated;
  }
  return kReplicated;
}

// What a message says, before it is known to make sense.
struct Raw {
  uint64_t type = kReplicated;
  bool replicate_last = false;
  std::vector<int64_t> last_tile_dims;
  HloSharding sharding;
};

absl::StatusOr<HloSharding> Finish(Raw raw) {
  HloSharding& s = raw.sharding;
  switch (raw.type) {
    case kReplicated:
      return HloSharding{};
    case kManual:
    case kUnreduced:
    case kUnknown: {
      HloSharding result;
      result.kind = raw.type == kManual      ? HloSharding::Kind::kManual
                    : raw.type == kUnreduced ? HloSharding::Kind::kUnreduced
                                             : HloSharding::Kind::kUnknown;
      return result;
    }
    case kMaximal: {
      if (s.devices.size() != 1 || s.devices[0] < 0) return Malformed("it names no device");
      HloSharding result;
      result.kind = HloSharding::Kind::kMaximal;
      result.device = s.devices[0];
      return result;
    }
    case kTuple: {
      HloSharding result;
      result.kind = HloSharding::Kind::kTuple;
      result.elements = std::move(s.elements);
      return result;
    }
    case kOther:
      break;
    default:
      return Malformed(absl::StrCat("a kind numbered ", raw.type));
  }
  s.kind = HloSharding::Kind::kTiled;
  s.elements.clear();
  if (raw.replicate_last) raw.last_tile_dims = {kReplicated};
  for (int64_t type : raw.last_tile_dims) {
    if (type != kReplicated && type != kManual && type != kUnreduced) {
      return Malformed("a subgroup of another kind");
    }
    s.subgroups.push_back(type == kManual      ? HloSharding::Subgroup::kManual
                          : type == kUnreduced ? HloSharding::Subgroup::kUnreduced
                                               : HloSharding::Subgroup::kReplicated);
  }
  // The identity is written as a permutation too.
  if (!s.devices.empty()) s.reshape = s.permutation = {};
  SHARDWAY_RETURN_IF_ERROR(Validate(s));
  if (std::is_sorted(s.permutation.begin(), s.permutation.end())) s.permutation.clear();
  return std::move(s);
}

absl::StatusOr<HloSharding> Parse(std::string_view bytes, int depth) {
  if (depth > kMaxDepth) return Malformed("tuples nest too deeply");
  Raw raw;
  Reader reader(bytes);
  while (!reader.done()) {
    const uint64_t tag = reader.Varint();
    const uint64_t wire = tag & 7;
    switch (tag >> 3) {
      case kType:
        if (wire != kVarint) return Malformed("its kind is no number");
        raw.type = reader.Varint();
        break;
      case kTileDimensions:
        reader.Numbers(wire, raw.sharding.tile);
        break;
      case kTileDevices:
        reader.Numbers(wire, raw.sharding.devices);
        break;
      case kTupleShardings: {
        if (wire != kBytes) return Malformed("an element of a tuple is no message");
        SHARDWAY_ASSIGN_OR_RETURN(HloSharding element, Parse(reader.Bytes(), depth + 1));
        raw.sharding.elements.push_back(std::move(element));
        break;
      }
      case kReplicateOnLastTileDim:
        if (wire != kVarint) return Malformed("a flag is no number");
        raw.replicate_last = reader.Varint() != 0;
        break;
      case kLastTileDims:
        reader.Numbers(wire, raw.last_tile_dims);
        break;
      case kIotaReshapeDims:
        reader.Numbers(wire, raw.sharding.reshape);
        break;
      case kIotaTransposePerm:
        reader.Numbers(wire, raw.sharding.permutation);
        break;
      default:
        reader.Skip(wire);
    }
  }
  if (reader.failed()) return Malformed("they end in the middle");
  return Finish(std::move(raw));
}

}  // namespace

std::string ToProto(const HloSharding& s) {
  std::string out;
  const Type type = TypeOf(s.kind);
  if (type != kReplicated) PutInteger(out, kType, type);
  if (s.kind == HloSharding::Kind::kMaximal) {
    PutPacked(out, kTileDimensions, {1});
    PutPacked(out, kTileDevices, {s.device});
  }
  for (const HloSharding& element : s.elements) PutBytes(out, kTupleShardings, ToProto(element));
  if (s.kind != HloSharding::Kind::kTiled) return out;
  PutPacked(out, kTileDimensions, s.tile);
  PutPacked(out, kTileDevices, s.devices);
  if (s.subgroups == std::vector<HloSharding::Subgroup>{HloSharding::Subgroup::kReplicated}) {
    PutInteger(out, kReplicateOnLastTileDim, 1);
  } else {
    std::vector<int64_t> types;
    for (HloSharding::Subgroup g : s.subgroups) types.push_back(TypeOf(g));
    PutPacked(out, kLastTileDims, types);
  }
  if (!s.devices.empty()) return out;
  PutPacked(out, kIotaReshapeDims, s.reshape);
  std::vector<int64_t> permutation = s.permutation;
  for (size_t i = permutation.size(); i < s.reshape.size(); ++i) {
    permutation.push_back(static_cast<int64_t>(i));
  }
  PutPacked(out, kIotaTransposePerm, permutation);
  return out;
}

absl::StatusOr<HloSharding> FromProto(std::string_view bytes) { return Parse(bytes, 0); }

}  // namespace shardway::sharding
