// The pieces of the text writer, each appending MLIR text to a string. Private to shardway/ir.
#pragma once

#include <string>
#include <string_view>

#include "shardway/ir/attribute.h"
#include "shardway/ir/module.h"
#include "shardway/ir/text_writer.h"

namespace shardway::ir::text {

// "text" in quotes, everything unprintable as \XX.
void AppendQuoted(std::string& out, std::string_view text);
// A name as MLIR spells it bare where it can, quoted where it must (attribute and symbol names).
void AppendName(std::string& out, std::string_view name);
void AppendSymbol(std::string& out, std::string_view name);             // @name
void AppendInts(std::string& out, const std::vector<int64_t>& values);  // 1, 2, 3

// A float as the shortest decimal that reads back as the same bits, else as its bits in hex.
void AppendFloat(std::string& out, ElementType type, std::string_view bytes);

// dense<…> : tensor<…>
void AppendConstant(std::string& out, const Constant& constant, size_t max_bytes = SIZE_MAX);
void AppendDenseInts(std::string& out, std::string_view shape, const std::vector<int64_t>& values,
                     size_t row);

// Shardy's notation. The bodies "<@mesh, […]>" stand without "#sdy.sharding".
void AppendSharding(std::string& out, const SdySharding& sharding);
void AppendMesh(std::string& out, const SdyMesh& mesh);
void AppendShardingRule(std::string& out, const SdyShardingRule& rule);
void AppendAxes(std::string& out, const std::vector<SdyAxisRef>& axes);
void AppendAllToAllParams(std::string& out, const SdyAllToAllParams& params);

void AppendAttribute(std::string& out, const Attribute& attribute, const TextOptions& options);
// {name = value, …}; nothing when there is nothing to write.
void AppendDict(std::string& out, const AttrDict& dict, const TextOptions& options);
// The attributes of an operator, its flattened ones put together as StableHLO has them.
void AppendOpAttributes(std::string& out, const Op& op, const TextOptions& options);

}  // namespace shardway::ir::text
