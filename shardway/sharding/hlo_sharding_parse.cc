#include <cctype>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::sharding {
namespace {

constexpr int kMaxDepth = 4;
constexpr size_t kMaxListLength = 1 << 20;
constexpr int64_t kMaxDevices = int64_t{1} << 30;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<HloSharding> ParseAll() {
    SHARDWAY_ASSIGN_OR_RETURN(HloSharding result, ParseSharding(0));
    SkipSpace();
    if (at_ != text_.size()) return Fault("the end");
    return result;
  }

 private:
  absl::StatusOr<HloSharding> ParseSharding(int depth) {
    if (depth > kMaxDepth) return Fault("less nesting");
    if (!Take("{")) return Fault("'{'");
    HloSharding result;
    if (Peek("{") || Peek("}")) {
      result.kind = HloSharding::Kind::kTuple;
      while (Peek("{")) {
        SHARDWAY_ASSIGN_OR_RETURN(HloSharding element, ParseSharding(depth + 1));
        result.elements.push_back(std::move(element));
        Take(",");
      }
    } else if (Take("replicated")) {
      result.kind = HloSharding::Kind::kReplicated;
    } else if (Take("manual")) {
      result.kind = HloSharding::Kind::kManual;
    } else if (Take("unknown")) {
      result.kind = HloSharding::Kind::kUnknown;
    } else if (Take("unreduced")) {
      result.kind = HloSharding::Kind::kUnreduced;
    } else if (Peek("mesh[")) {
      return absl::UnimplementedError(
          absl::StrCat("the sharding '", std::string(text_.substr(0, 200)),
                       "' names the axes of a mesh (HloSharding version 3); write its tiles "
                       "(devices=[…]<=[…])"));
    } else if (Take("maximal")) {
      result.kind = HloSharding::Kind::kMaximal;
      if (!Take("device=")) return Fault("'device='");
      SHARDWAY_ASSIGN_OR_RETURN(result.device, Integer());
    } else if (Take("devices=")) {
      SHARDWAY_RETURN_IF_ERROR(ParseTiled(result));
    } else {
      return Fault("a kind of sharding");
    }
    // Nothing else changes the layout: metadata, shard_as, shard_like.
    int braces = 0;
    while (at_ < text_.size() && (braces > 0 || text_[at_] != '}')) {
      braces += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      ++at_;
    }
    if (!Take("}")) return Fault("'}'");
    return result;
  }

  absl::Status ParseTiled(HloSharding& result) {
    result.kind = HloSharding::Kind::kTiled;
    if (!Take("[")) return Fault("'['");
    SHARDWAY_ASSIGN_OR_RETURN(result.tile, IntegersUntil("]"));
    if (Take("<=")) {
      if (!Take("[")) return Fault("'['");
      SHARDWAY_ASSIGN_OR_RETURN(result.reshape, IntegersUntil("]"));
      if (Take("T")) {
        if (!Take("(")) return Fault("'('");
        SHARDWAY_ASSIGN_OR_RETURN(result.permutation, IntegersUntil(")"));
      }
    } else {
      do {
        SHARDWAY_ASSIGN_OR_RETURN(int64_t id, Integer());
        result.devices.push_back(id);
      } while (result.devices.size() < kMaxListLength && Take(","));
    }
    if (Take("last_tile_dim_replicate")) {
      result.subgroups = {HloSharding::Subgroup::kReplicated};
    } else if (Take("last_tile_dims={")) {
      while (!Take("}")) {
        if (Take("manual")) {
          result.subgroups.push_back(HloSharding::Subgroup::kManual);
        } else if (Take("replicated")) {
          result.subgroups.push_back(HloSharding::Subgroup::kReplicated);
        } else if (Take("unreduced")) {
          result.subgroups.push_back(HloSharding::Subgroup::kUnreduced);
        } else {
          return Fault("'manual', 'unreduced' or 'replicated'");
        }
        Take(",");
      }
    }
    const absl::Status valid = Validate(result);
    return valid.ok() ? valid : Fault(std::string(valid.message()));
  }

  absl::StatusOr<std::vector<int64_t>> IntegersUntil(std::string_view end) {
    std::vector<int64_t> list;
    while (!Take(end)) {
      if (list.size() > kMaxListLength) return Fault("a shorter list");
      SHARDWAY_ASSIGN_OR_RETURN(int64_t value, Integer());
      list.push_back(value);
      Take(",");
    }
    return list;
  }

  absl::StatusOr<int64_t> Integer() {
    SkipSpace();
    int64_t value = 0;
    size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) &&
           at_ - begin < 12) {
      value = value * 10 + (text_[at_++] - '0');
    }
    if (at_ == begin) return Fault("a number");
    return value;
  }

  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Peek(std::string_view token) {
    SkipSpace();
    return text_.substr(at_).starts_with(token);
  }
  bool Take(std::string_view token) {
    if (!Peek(token)) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Fault(std::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat("sharding \"", std::string(text_.substr(0, 200)),
                                                   "\": expected ", std::string(expected),
                                                   " at offset ", at_));
  }

  std::string_view text_;
  size_t at_ = 0;
};

absl::Status Expected(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

}  // namespace

absl::Status Validate(const HloSharding& s) {
  if (s.kind != HloSharding::Kind::kTiled) return absl::OkStatus();
  int64_t tiles = 1;
  for (int64_t t : s.tile) {
    if (t < 1 || t > kMaxDevices / tiles) return Expected("a sensible number of tiles");
    tiles *= t;
  }
  if (s.subgroups.size() > s.tile.size()) return Expected("as many tiles as subgroups");
  auto devices = static_cast<int64_t>(s.devices.size());
  if (s.devices.empty()) {
    devices = 1;
    for (int64_t r : s.reshape) {
      if (r < 1 || r > kMaxDevices / devices) return Expected("a sensible number of devices");
      devices *= r;
    }
  }
  if (devices != tiles) return Expected("as many devices as tiles");
  std::vector<bool> named(s.devices.size());
  for (int64_t id : s.devices) {
    if (id < 0 || id >= devices || named[id]) return Expected("every device once");
    named[id] = true;
  }
  std::vector<bool> seen(s.reshape.size());
  for (int64_t p : s.permutation) {
    if (p < 0 || p >= static_cast<int64_t>(seen.size()) || seen[p]) {
      return Expected("a permutation");
    }
    seen[p] = true;
  }
  if (!s.permutation.empty() && s.permutation.size() != seen.size()) {
    return Expected("a permutation of all dimensions");
  }
  return absl::OkStatus();
}

absl::StatusOr<HloSharding> ParseHloSharding(std::string_view text) {
  return Parser(text).ParseAll();
}

}  // namespace shardway::sharding
