// The frame of an MLIR bytecode file:
//
//   file        "ML\xEFR" version producer\0 section*
//   section     id (bit 7: aligned) length [alignment padding] bytes
//   string      count, sizes in reverse order, the strings (each with its \0)
//   dialect     count, names (with versions), then operator names grouped by dialect
//   attr/type   bytes of all attributes and types; the offset section holds their sizes by dialect
//   properties  count, (size bytes)*
//   IR          a block with the module operator
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shardway/ir/bytecode/byte_reader.h"

namespace shardway::ir::bytecode {

struct OpName {
  std::string_view dialect;
  std::string_view name;  // without the dialect
};

// An attribute or a type, not yet decoded.
struct Entry {
  std::string_view dialect;
  std::string_view bytes;
  uint64_t offset = 0;      // in the file
  bool is_encoded = false;  // by its dialect; otherwise assembly text
};

// Bytecode versions that change the layout.
inline constexpr uint64_t kDialectVersions = 1;
inline constexpr uint64_t kLazyRegions = 2;
inline constexpr uint64_t kUseListOrder = 3;
inline constexpr uint64_t kOptionalArgumentLocations = 4;
inline constexpr uint64_t kProperties = 5;
inline constexpr uint64_t kNewestVersion = 6;

inline constexpr uint8_t kIrSection = 4;

// Views into the artifact's bytes.
struct Sections {
  uint64_t version = 0;
  std::string_view producer;
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<OpName> op_names;
  std::vector<Entry> attributes;
  std::vector<Entry> types;
  std::vector<std::string_view> properties;
  std::vector<uint64_t> property_offsets;
  std::string_view ir;
  uint64_t ir_offset = 0;
};

// Reads one section's header; its bytes are returned, its offset in the file set.
std::string_view ReadSection(ByteReader& reader, uint8_t& id, uint64_t& offset);

// Reads everything but the IR. Errors go to `errors`.
Sections ReadSections(std::string_view file, ErrorSink* errors);

}  // namespace shardway::ir::bytecode
