#include "shardway/ir/op_kind.h"

#include <array>

#include "absl/container/flat_hash_map.h"

namespace shardway::ir {
namespace {

constexpr std::array<std::string_view, kNumOpKinds> kNames = {
#define SHARDWAY_IR_NAME(kind, name) name,
    SHARDWAY_IR_OPS(SHARDWAY_IR_NAME)
#undef SHARDWAY_IR_NAME
};

}  // namespace

std::string_view OpKindName(OpKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<OpKind> OpKindFromName(std::string_view name) {
  static const auto* const kinds = [] {
    auto* map = new absl::flat_hash_map<std::string_view, OpKind>;
    for (size_t i = 0; i < kNames.size(); ++i) map->emplace(kNames[i], static_cast<OpKind>(i));
    return map;
  }();
  const auto it = kinds->find(name);
  if (it == kinds->end()) return std::nullopt;
  return it->second;
}

}  // namespace shardway::ir
