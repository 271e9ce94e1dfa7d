// The attributes and types of an artifact, decoded when first asked for.
//
// Entries refer to one another by index. The pool bounds what hostile bytes could do with that: a
// chain deeper than kMaxDepth or a circle is an error, and so is an artifact whose entries expand
// (each use counted) to more than its size explains.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardway/ir/bytecode/byte_reader.h"
#include "shardway/ir/bytecode/decoded.h"
#include "shardway/ir/bytecode/sections.h"

namespace shardway::ir::bytecode {

class Pool {
 public:
  // Locations nest one level for each frame of the user's call stack.
  static constexpr int kMaxDepth = 512;

  // `sections` views the artifact's bytes, which `owner` keeps alive: constants share them.
  // Locations go to `module`.
  Pool(const Sections* sections, std::shared_ptr<const void> owner, Module* module,
       ErrorSink* errors);

  ErrorSink* errors() const { return errors_; }
  bool ok() const { return errors_->ok(); }
  Module* module() const { return module_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  std::string_view String(ByteReader& reader);  // a string index

  // By index. Null after an error (an index out of range is one).
  const DecodedAttribute* GetAttribute(uint64_t index);
  const DecodedType* GetType(uint64_t index);

  // Reads an index and returns what is there as a T, or null with an error "… is no <what>".
  template <typename T>
  const T* Read(ByteReader& reader, std::string_view what) {
    const DecodedAttribute* decoded = GetAttribute(reader.ReadVarInt());
    const T* value = decoded == nullptr ? nullptr : std::get_if<T>(decoded);
    if (value == nullptr) reader.Fail(absl::StrCat("an attribute is no ", Str(what)));
    return value;
  }
  // The same for a T inside an ir::Attribute.
  template <typename T>
  const T* ReadValue(ByteReader& reader, std::string_view what) {
    const Attribute* attribute = Read<Attribute>(reader, what);
    const T* value = attribute == nullptr ? nullptr : attribute->get_if<T>();
    if (value == nullptr) reader.Fail(absl::StrCat("an attribute is no ", Str(what)));
    return value;
  }
  // A value's type; unsupported types (quantized, …) are UNIMPLEMENTED.
  Type ReadType(ByteReader& reader) { return ValueType(reader.ReadVarInt(), reader); }
  Type ValueType(uint64_t index, const ByteReader& reader);
  ElementType ReadElementType(ByteReader& reader);
  const Location* ReadLocation(ByteReader& reader);

  // Counts `weight` units of expansion; fails when the artifact has used up its allowance.
  bool Charge(uint64_t weight);
  // Charges what one more use of this attribute may cost whoever walks through it.
  void ChargeUse(uint64_t index);

 private:
  enum class State : uint8_t { kNew, kBusy, kDone };
  template <typename T>
  struct Slot {
    State state = State::kNew;
    uint64_t weight = 0;
    T value;
  };

  static absl::string_view Str(std::string_view s) { return {s.data(), s.size()}; }
  template <typename T, typename Decode>
  const T* Get(std::vector<Slot<T>>& slots, const std::vector<Entry>& entries, uint64_t index,
               Decode decode);

  // Adds the weight of a part to the entry that is being decoded.
  bool Gather(uint64_t weight);

  const Sections* sections_;
  std::shared_ptr<const void> owner_;
  Module* module_;
  ErrorSink* errors_;
  std::vector<Slot<DecodedAttribute>> attributes_;
  std::vector<Slot<DecodedType>> types_;
  int depth_ = 0;
  uint64_t weight_ = 0;  // of the entry that is being decoded
  uint64_t allowance_;
};

// The decoders of the dialects; errors go to the reader.
DecodedAttribute DecodeBuiltinAttribute(ByteReader& reader, Pool& pool);
DecodedType DecodeBuiltinType(ByteReader& reader, Pool& pool);
// What sdy operators hand on is not versioned: a token stays the unversioned dialect's, its only
// type.
DecodedType DecodeStablehloType(ByteReader& reader);
DecodedAttribute DecodeVhloAttribute(ByteReader& reader, Pool& pool);
DecodedType DecodeVhloType(ByteReader& reader, Pool& pool);
DecodedAttribute DecodeSdyAttribute(ByteReader& reader, Pool& pool);
// Assembly text, the form of what a dialect has no encoding for.
DecodedAttribute DecodeTextAttribute(std::string_view text);
DecodedType DecodeTextType(std::string_view text);

// Pieces that several dialects share.
// A tensor type; sizes are checked. `element` may be any decoded type.
DecodedType MakeTensor(ByteReader& reader, std::vector<int64_t> shape, const DecodedType* element);
DecodedType WithBounds(ByteReader& reader, DecodedType tensor, const std::vector<int64_t>& bounds);
// The elements of a constant, from `blob` in the file's form (booleans packed or not).
Attribute MakeConstant(ByteReader& reader, Pool& pool, const Type& type, std::string_view blob);
std::vector<int64_t> ReadSignedList(ByteReader& reader);
// An integer attribute of the given element type.
Attribute ReadInteger(ByteReader& reader, ElementType type);
// An integer attribute: its type, then its value.
Attribute ReadTypedInteger(ByteReader& reader, Pool& pool);
// An ir::Attribute, or a RawDict when a value is no ir::Attribute.
DecodedAttribute ReadDictionary(ByteReader& reader, Pool& pool);
// A type as an attribute.
DecodedAttribute ReadTypeAttribute(ByteReader& reader, Pool& pool);
// An array of attributes. Shardy-like axes have array forms of their own.
DecodedAttribute ReadArray(ByteReader& reader, Pool& pool);
double ReadFloat(ByteReader& reader, ElementType type);
std::vector<Type> ReadTypes(ByteReader& reader, Pool& pool);

}  // namespace shardway::ir::bytecode
