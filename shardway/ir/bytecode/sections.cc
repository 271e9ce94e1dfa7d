#include "shardway/ir/bytecode/sections.h"

#include <array>
#include <bit>
#include <utility>

namespace shardway::ir::bytecode {
namespace {

constexpr std::string_view kMagic = "ML\xEFR";

enum SectionId : uint8_t {
  kStrings = 0,
  kDialects = 1,
  kAttrTypes = 2,
  kAttrTypeOffsets = 3,
  kIr = kIrSection,
  kResources = 5,
  kResourceOffsets = 6,
  kDialectVersionBytes = 7,
  kPropertyBytes = 8,
  kNumSections = 9,
};

struct Section {
  std::string_view bytes;
  uint64_t offset = 0;
  bool present = false;
};

class FrameReader {
 public:
  FrameReader(std::string_view file, ErrorSink* errors) : file_(file), errors_(errors) {}

  Sections Read() {
    ReadFrame();
    if (errors_->ok()) ReadStrings();
    if (errors_->ok()) ReadDialects();
    if (errors_->ok()) ReadEntries();
    if (errors_->ok()) ReadProperties();
    return std::move(result_);
  }

 private:
  ByteReader Open(SectionId id) {
    return ByteReader(sections_[id].bytes, sections_[id].offset, errors_);
  }

  std::string_view String(ByteReader& reader, uint64_t index) {
    if (index >= result_.strings.size()) {
      reader.Fail("a string index is out of range");
      return {};
    }
    return result_.strings[index];
  }

  void ReadFrame() {
    ByteReader reader(file_, 0, errors_);
    if (reader.ReadBytes(kMagic.size()) != kMagic) {
      return errors_->Invalid("it does not begin with MLIR's magic number", 0);
    }
    result_.version = reader.ReadVarInt();
    if (reader.ok() && result_.version > kNewestVersion) {
      return errors_->Unimplemented(absl::StrCat("MLIR bytecode version ", result_.version,
                                                 "; the newest known is ", kNewestVersion));
    }
    result_.producer = reader.ReadNullTerminated();
    while (!reader.empty()) {
      uint8_t id = 0;
      uint64_t offset = 0;
      const std::string_view bytes = ReadSection(reader, id, offset);
      if (!reader.ok()) return;
      if (id >= kNumSections) return reader.Fail("a section's kind is unknown");
      if (sections_[id].present) return reader.Fail("a section comes twice");
      sections_[id] = {bytes, offset, true};
    }
    for (SectionId id : {kStrings, kDialects, kAttrTypes, kAttrTypeOffsets, kIr}) {
      if (!sections_[id].present) return errors_->Invalid("a section is missing");
    }
    result_.ir = sections_[kIr].bytes;
    result_.ir_offset = sections_[kIr].offset;
  }

  void ReadStrings() {
    ByteReader reader = Open(kStrings);
    const size_t count = reader.ReadCount();
    std::vector<uint64_t> sizes(count);
    for (size_t i = count; i-- > 0;) sizes[i] = reader.ReadVarInt();
    result_.strings.reserve(count);
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      const std::string_view text = reader.ReadBytes(sizes[i]);
      if (text.empty() || text.back() != '\0') return reader.Fail("a string is not terminated");
      result_.strings.push_back(text.substr(0, text.size() - 1));
    }
  }

  void ReadDialects() {
    ByteReader reader = Open(kDialects);
    const size_t count = reader.ReadCount();
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      if (result_.version < kDialectVersions) {
        result_.dialects.push_back(String(reader, reader.ReadVarInt()));
        continue;
      }
      const auto [name, versioned] = reader.ReadVarIntWithFlag();
      result_.dialects.push_back(String(reader, name));
      if (versioned) {
        uint8_t id = 0;
        uint64_t offset = 0;
        ReadSection(reader, id, offset);
        if (reader.ok() && id != kDialectVersionBytes) {
          return reader.Fail("a dialect's version is not one");
        }
      }
    }
    if (result_.version >= kOptionalArgumentLocations) {
      result_.op_names.reserve(reader.ReadCount());
    }
    while (!reader.empty()) {
      const std::string_view dialect = Dialect(reader);
      const size_t names = reader.ReadCount();
      for (size_t i = 0; i < names && reader.ok(); ++i) {
        uint64_t index = reader.ReadVarInt();
        if (result_.version >= kProperties) index >>= 1;  // bit 0: is the operator registered
        result_.op_names.push_back({dialect, String(reader, index)});
      }
    }
  }

  std::string_view Dialect(ByteReader& reader) {
    const uint64_t index = reader.ReadVarInt();
    if (index >= result_.dialects.size()) {
      reader.Fail("a dialect index is out of range");
      return {};
    }
    return result_.dialects[index];
  }

  void ReadEntries() {
    ByteReader sizes = Open(kAttrTypeOffsets);
    ByteReader data = Open(kAttrTypes);
    const size_t attributes = sizes.ReadCount();
    const size_t types = sizes.ReadCount();
    ReadEntries(sizes, data, attributes, result_.attributes);
    ReadEntries(sizes, data, types, result_.types);
  }

  void ReadEntries(ByteReader& sizes, ByteReader& data, size_t count, std::vector<Entry>& entries) {
    entries.reserve(count);
    while (entries.size() < count && sizes.ok()) {
      const std::string_view dialect = Dialect(sizes);
      const size_t group = sizes.ReadCount();
      if (group > count - entries.size()) return sizes.Fail("a group of entries is too long");
      for (size_t i = 0; i < group && sizes.ok(); ++i) {
        const auto [size, encoded] = sizes.ReadVarIntWithFlag();
        Entry& entry = entries.emplace_back();
        entry.dialect = dialect;
        entry.is_encoded = encoded;
        entry.offset = data.offset();
        entry.bytes = data.ReadBytes(size);
      }
    }
  }

  void ReadProperties() {
    if (!sections_[kPropertyBytes].present) return;
    ByteReader reader = Open(kPropertyBytes);
    const size_t count = reader.ReadCount();
    result_.properties.reserve(count);
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      const uint64_t size = reader.ReadVarInt();
      result_.property_offsets.push_back(reader.offset());
      result_.properties.push_back(reader.ReadBytes(size));
    }
  }

  std::string_view file_;
  ErrorSink* errors_;
  std::array<Section, kNumSections> sections_;
  Sections result_;
};

}  // namespace

std::string_view ReadSection(ByteReader& reader, uint8_t& id, uint64_t& offset) {
  const uint8_t header = reader.ReadByte();
  id = header & 0x7f;
  const uint64_t size = reader.ReadVarInt();
  if ((header & 0x80) != 0) {
    const uint64_t alignment = reader.ReadVarInt();
    if (!std::has_single_bit(alignment)) {
      reader.Fail("a section's alignment is no power of two");
      return {};
    }
    while (reader.ok() && reader.offset() % alignment != 0) {
      if (reader.ReadByte() != 0xCB) reader.Fail("a section's padding is damaged");
    }
  }
  offset = reader.offset();
  return reader.ReadBytes(size);
}

Sections ReadSections(std::string_view file, ErrorSink* errors) {
  return FrameReader(file, errors).Read();
}

}  // namespace shardway::ir::bytecode
