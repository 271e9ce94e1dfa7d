// MLIR's own attributes and types: locations, the module's attributes, the types at Shardy's
// operators.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/ir/bytecode/pool.h"
#include "shardway/ir/scalar.h"

namespace shardway::ir::bytecode {
namespace {

enum AttributeCode : uint64_t {
  kArray = 0,
  kDictionary = 1,
  kString = 2,
  kStringWithType = 3,
  kFlatSymbolRef = 4,
  kSymbolRef = 5,
  kTypeAttr = 6,
  kUnit = 7,
  kInteger = 8,
  kFloat = 9,
  kCallSiteLoc = 10,
  kFileLineColLoc = 11,
  kFusedLoc = 12,
  kFusedLocWithMetadata = 13,
  kNameLoc = 14,
  kUnknownLoc = 15,
  kDenseArray = 17,
  kDenseElements = 18,
  kFileLineColRange = 22,
};

enum TypeCode : uint64_t {
  kIntegerType = 0,
  kIndex = 1,
  kFunction = 2,
  kBF16 = 3,
  kF16 = 4,
  kF32 = 5,
  kF64 = 6,
  kComplex = 9,
  kNone = 12,
  kRankedTensor = 13,
  kRankedTensorWithEncoding = 14,
  kTuple = 15,
  kFirstNarrow = 22,
};

// From kFirstNarrow on: what shard_map's arguments have beside the wide types.
constexpr std::array kNarrowFloats = {
    ElementType::kF8E5M2,     ElementType::kF8E4M3,     ElementType::kF8E4M3FN,
    ElementType::kF8E5M2FNUZ, ElementType::kF8E4M3FNUZ, ElementType::kF8E4M3B11FNUZ,
    ElementType::kF8E3M4,     ElementType::kF4E2M1FN,   ElementType::kF6E2M3FN,
    ElementType::kF6E3M2FN,   ElementType::kF8E8M0FNU};

// A location knows the user's line best where it was called innermost.
const Location* Merge(Pool& pool, const Location* named, const Location* place) {
  Location merged = *place;
  if (!named->name.empty()) merged.name = named->name;
  if (!named->file.empty()) {
    merged.file = named->file;
    merged.line = named->line;
    merged.column = named->column;
  }
  return pool.module()->AddLocation(std::move(merged));
}

int Clamped(uint64_t value) { return static_cast<int>(std::min<uint64_t>(value, INT32_MAX)); }

const Location* FileLocation(Pool& pool, const std::string* file, uint64_t line, uint64_t column) {
  if (file == nullptr) return pool.module()->unknown_location();
  return pool.module()->AddLocation({"", *file, Clamped(line), Clamped(column)});
}

const Location* DecodeFileRange(ByteReader& reader, Pool& pool) {
  const auto* file = pool.ReadValue<std::string>(reader, "file name");
  const size_t count = reader.ReadCount();
  uint64_t numbers[4] = {};
  if (count > 4) reader.Fail("a location has too many numbers");
  for (size_t i = 0; i < count && reader.ok(); ++i) numbers[i] = reader.ReadVarInt();
  return FileLocation(pool, file, numbers[0], numbers[1]);
}

const Location* DecodeFused(ByteReader& reader, Pool& pool) {
  const Location* best = pool.module()->unknown_location();
  const size_t count = reader.ReadCount();
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    const Location* location = pool.ReadLocation(reader);
    if (best->file.empty() && (best->name.empty() || !location->file.empty())) best = location;
  }
  return best;
}

Attribute DecodeDenseArray(ByteReader& reader, Pool& pool) {
  const ElementType element = pool.ReadElementType(reader);
  const uint64_t count = reader.ReadVarInt();
  const std::string_view bytes = reader.ReadBlob();
  const uint64_t width = element == ElementType::kInvalid ? 1 : ElementBytes(element);
  if (bytes.size() / width != count || bytes.size() % width != 0) {
    reader.Fail("an array has the wrong number of bytes");
    return {};
  }
  if (element == ElementType::kI1) {
    std::vector<bool> flags;
    for (const char c : bytes) flags.push_back(c != 0);
    return flags;
  }
  if (!IsInteger(element)) {
    reader.errors()->Unimplemented("an array attribute of floating-point numbers");
    return {};
  }
  std::vector<int64_t> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    values.push_back(IntFromElement(element, bytes.substr(i * width, width)));
  }
  if (element == ElementType::kI64) return values;
  RawAttr raw{absl::StrCat("array<", std::string(ElementTypeName(element)))};
  for (uint64_t i = 0; i < count; ++i) absl::StrAppend(&raw.text, i == 0 ? ": " : ", ", values[i]);
  raw.text += '>';
  return raw;
}

DecodedType DecodeIntegerType(ByteReader& reader) {
  const uint64_t both = reader.ReadVarInt();
  const uint64_t width = both >> 2;
  const bool is_unsigned = (both & 3) == 2;
  const std::string name = absl::StrCat(is_unsigned ? "ui" : "i", width);
  const auto element = ElementTypeFromName(name);
  if (!element) return UnsupportedType{absl::StrCat("the type ", name)};
  return *element;
}

DecodedType DecodeComplex(ByteReader& reader, Pool& pool) {
  const ElementType part = pool.ReadElementType(reader);
  if (part == ElementType::kF32) return ElementType::kC64;
  if (part == ElementType::kF64) return ElementType::kC128;
  return UnsupportedType{"a complex type of other than f32 and f64"};
}

}  // namespace

DecodedAttribute DecodeBuiltinAttribute(ByteReader& reader, Pool& pool) {
  const uint64_t code = reader.ReadVarInt();
  switch (code) {
    case kArray:
      return ReadArray(reader, pool);
    case kDictionary:
      return ReadDictionary(reader, pool);
    case kString:
      return Attribute(std::string(pool.String(reader)));
    case kStringWithType: {
      Attribute text = std::string(pool.String(reader));
      reader.ReadVarInt();
      return text;
    }
    case kFlatSymbolRef: {
      const auto* name = pool.ReadValue<std::string>(reader, "symbol name");
      return name == nullptr ? Attribute() : Attribute(FlatSymbolRef{*name});
    }
    case kTypeAttr:
      return ReadTypeAttribute(reader, pool);
    case kUnit:
      return Attribute(Unit{});
    case kInteger:
      return ReadTypedInteger(reader, pool);
    case kFloat: {
      const ElementType type = pool.ReadElementType(reader);
      return Attribute(TypedFloat{type, ReadFloat(reader, type)});
    }
    case kCallSiteLoc: {
      const Location* callee = pool.ReadLocation(reader);
      return Merge(pool, callee, pool.ReadLocation(reader));
    }
    case kFileLineColLoc: {
      const auto* file = pool.ReadValue<std::string>(reader, "file name");
      const uint64_t line = reader.ReadVarInt();
      return FileLocation(pool, file, line, reader.ReadVarInt());
    }
    case kFusedLoc:
      return DecodeFused(reader, pool);
    case kFusedLocWithMetadata: {
      const Location* location = DecodeFused(reader, pool);
      reader.ReadVarInt();
      return location;
    }
    case kNameLoc: {
      const auto* name = pool.ReadValue<std::string>(reader, "location name");
      const Location* child = pool.ReadLocation(reader);
      if (name == nullptr) return {};
      Location named = *child;
      named.name = *name;
      return static_cast<const Location*>(pool.module()->AddLocation(std::move(named)));
    }
    case kUnknownLoc:
      return pool.module()->unknown_location();
    case kDenseArray:
      return DecodeDenseArray(reader, pool);
    case kDenseElements: {
      const Type type = pool.ReadType(reader);
      return MakeConstant(reader, pool, type, reader.ReadBlob());
    }
    case kFileLineColRange:
      return DecodeFileRange(reader, pool);
    default:
      reader.errors()->Unimplemented(absl::StrCat("the builtin attribute with code ", code));
      return {};
  }
}

DecodedType DecodeBuiltinType(ByteReader& reader, Pool& pool) {
  const uint64_t code = reader.ReadVarInt();
  switch (code) {
    case kIntegerType:
      return DecodeIntegerType(reader);
    case kIndex:
      return IndexType{};
    case kFunction: {
      FunctionType function;
      function.inputs = ReadTypes(reader, pool);
      function.results = ReadTypes(reader, pool);
      return function;
    }
    case kBF16:
      return ElementType::kBF16;
    case kF16:
      return ElementType::kF16;
    case kF32:
      return ElementType::kF32;
    case kF64:
      return ElementType::kF64;
    case kComplex:
      return DecodeComplex(reader, pool);
    case kNone:
      return NoneType{};
    case kRankedTensor: {
      std::vector<int64_t> shape = ReadSignedList(reader);
      return MakeTensor(reader, std::move(shape), pool.GetType(reader.ReadVarInt()));
    }
    case kRankedTensorWithEncoding: {
      const auto* bounds = pool.Read<Bounds>(reader, "bound of a tensor");
      std::vector<int64_t> shape = ReadSignedList(reader);
      DecodedType tensor = MakeTensor(reader, std::move(shape), pool.GetType(reader.ReadVarInt()));
      return bounds == nullptr ? tensor : WithBounds(reader, std::move(tensor), bounds->bounds);
    }
    case kTuple:
      return Type::Tuple(ReadTypes(reader, pool));
    default:
      if (code >= kFirstNarrow && code - kFirstNarrow < kNarrowFloats.size()) {
        return kNarrowFloats[code - kFirstNarrow];
      }
      return UnsupportedType{absl::StrCat("the builtin type with code ", code)};
  }
}

DecodedType DecodeStablehloType(ByteReader& reader) {
  constexpr uint64_t kTokenType = 0;
  if (const uint64_t code = reader.ReadVarInt(); code != kTokenType) {
    reader.Fail(absl::StrCat("there is no type ", code, " of the dialect 'stablehlo'"));
    return {};
  }
  return Type::Token();
}

}  // namespace shardway::ir::bytecode
