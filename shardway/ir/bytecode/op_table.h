// What the artifact's reader must know of each operator: the attributes that its properties hold,
// in their order, and how each becomes our normal form (attribute.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardway/ir/op_kind.h"

namespace shardway::ir::bytecode {

// How the file's form of an attribute becomes ours.
enum class Rule : uint8_t {
  kKeep,          // as it is
  kInt32,         // an integer of 32 bits, as it is
  kInts,          // a tensor of integers becomes a list
  kBools,         // a tensor of booleans becomes a list
  kGroups,        // replica groups: a matrix, or axes of a mesh to spell out
  kPairs,         // a matrix of pairs becomes a flat list; an empty one is absent
  kSymbol,        // a string becomes a symbol
  kSymbols,       // an array of strings becomes one of symbols; an empty one is absent
  kFlag,          // false is absent
  kNonZero,       // 0 is absent
  kNonEmpty,      // an empty string, array, dictionary or list is absent
  kNonEmptyInts,  // kInts, but an empty one is absent
  kPrecisions,    // an array of DEFAULTs is absent
  kEnum,          // an enumerator, of the enumeration that belongs to the name
  kCompareType,   // NOTYPE is absent
  kApiVersion,    // API_VERSION_ORIGINAL is absent
  kElement,       // an element type becomes a scalar's type; none is absent
  kUnlessNone,    // the type none is absent
  kAccuracy,      // the default is absent
  kDrop,          // no longer part of the operator
};

enum class Role : uint8_t { kOperator, kFunction, kReturn, kModule, kMesh, kCast };

struct OpSpec {
  struct Attribute {
    std::string name;
    Rule rule = Rule::kKeep;
    bool optional = false;
  };
  std::string name;  // for messages
  Role role = Role::kOperator;
  OpKind kind = OpKind::kAbs;
  std::vector<Attribute> attributes;  // alphabetical

  const Attribute* Find(std::string_view attribute) const;
};

// Null for an operator that no artifact of ours has.
const OpSpec* FindOp(std::string_view dialect, std::string_view name);

}  // namespace shardway::ir::bytecode
