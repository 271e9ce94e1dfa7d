// From the file's attributes to the normal form of shardway/ir/attribute.h.
#pragma once

#include <optional>

#include "shardway/ir/bytecode/op_table.h"
#include "shardway/ir/bytecode/pool.h"

namespace shardway::ir::bytecode {

// The normal form of `decoded` under `attribute`'s rule; nullopt when it says "nothing given", or
// after an error (in the pool's sink).
std::optional<Attribute> Normalise(const OpSpec& op, const OpSpec::Attribute& attribute,
                                   const DecodedAttribute& decoded, Pool& pool);

// An attribute that is not the operator's own: kept as it is, as text where it is no ir::Attribute.
// nullopt when it can't be kept.
std::optional<Attribute> Discardable(const DecodedAttribute& decoded);

// What depends on more than one attribute: layouts that are all absent, the sign of a sort's
// dimension.
void FinishAttributes(Op& op);

}  // namespace shardway::ir::bytecode
