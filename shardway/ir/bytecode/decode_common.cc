#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "shardway/ir/bytecode/pool.h"
#include "shardway/ir/scalar.h"

namespace shardway::ir::bytecode {
namespace {

// Ranks beyond this are beyond XLA's own.
constexpr size_t kMaxRank = 64;

std::string UnpackBooleans(std::string_view packed, size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>((static_cast<uint8_t>(packed[i / 8]) >> (i % 8)) & 1);
  }
  return bytes;
}

// Booleans: one bit each, LSB first, unless one byte each; a splat is one byte, 0xFF or 0x01, 0x00.
Constant MakeBooleans(ByteReader& reader, const Type& type, std::string_view blob) {
  const auto count = static_cast<uint64_t>(type.num_elements());
  if (blob.size() == 1 && (blob[0] == '\0' || blob[0] == '\xff')) {
    return Constant::Copy(type, std::string(1, blob[0] == '\0' ? '\0' : '\1'), /*splat=*/true);
  }
  const uint64_t packed = count / 8 + (count % 8 != 0);
  if (blob.size() == packed && blob.size() != count) {
    return Constant::Copy(type, UnpackBooleans(blob, count), /*splat=*/false);
  }
  if (blob.size() != count && blob.size() != 1) {
    reader.Fail("a constant of booleans has the wrong number of bytes");
    return {};
  }
  std::string bytes(blob);
  for (char& b : bytes) b = b != 0 ? '\1' : '\0';
  return Constant::Copy(type, bytes, /*splat=*/blob.size() != count);
}

}  // namespace

DecodedType MakeTensor(ByteReader& reader, std::vector<int64_t> shape, const DecodedType* element) {
  if (element == nullptr) return {};
  if (shape.size() > kMaxRank) {
    reader.Fail("a tensor has too many dimensions");
    return {};
  }
  for (int64_t& d : shape) {
    if (d == INT64_MIN) d = kDynamic;
    if (d < kDynamic) {
      reader.Fail("a dimension is negative");
      return {};
    }
  }
  if (std::holds_alternative<IndexType>(*element)) {
    return UnsupportedType{"a tensor of the type index", std::move(shape)};
  }
  if (std::holds_alternative<UnsupportedType>(*element)) return *element;
  const ElementType* type = std::get_if<ElementType>(element);
  if (type == nullptr) {
    reader.Fail("a tensor's element type is none");
    return {};
  }
  Type tensor = Type::Tensor(*type, shape);
  // Dimensions of one tensor must multiply without overflow, zero or not: later code relies on it.
  int64_t bytes = 16;
  for (const int64_t d : shape) {
    if (d > 0 && __builtin_mul_overflow(bytes, d, &bytes)) {
      reader.Fail("a tensor is larger than any memory");
      return {};
    }
  }
  return tensor;
}

DecodedType WithBounds(ByteReader& reader, DecodedType tensor, const std::vector<int64_t>& bounds) {
  Type* type = std::get_if<Type>(&tensor);
  if (type == nullptr) return tensor;
  if (bounds.size() != type->dims.size()) {
    reader.Fail("a tensor has another number of bounds than of dimensions");
    return {};
  }
  std::vector<int64_t> normal = bounds;
  for (int64_t& b : normal) {
    if (b < 0) b = kDynamic;
  }
  type->bounds = std::make_shared<const std::vector<int64_t>>(std::move(normal));
  return tensor;
}

Attribute MakeConstant(ByteReader& reader, Pool& pool, const Type& type, std::string_view blob) {
  if (!reader.ok()) return {};
  if (!type.is_tensor() || !type.is_static()) {
    reader.Fail("a constant is no tensor of known size");
    return {};
  }
  if (type.element == ElementType::kI1 && (type.num_elements() > 0 || !blob.empty()))
    return MakeBooleans(reader, type, blob);
  const auto width = static_cast<uint64_t>(ElementBytes(type.element));
  const auto size = static_cast<uint64_t>(type.num_bytes());
  Constant constant;
  constant.type = type;
  constant.bytes = blob;
  constant.owner = pool.owner();
  constant.splat = blob.size() == width && blob.size() != size;
  if (blob.size() != size && !constant.splat) {
    reader.Fail("a constant has the wrong number of bytes");
    return {};
  }
  return constant;
}

std::vector<int64_t> ReadSignedList(ByteReader& reader) {
  const size_t count = reader.ReadCount();
  std::vector<int64_t> values;
  values.reserve(count);
  for (size_t i = 0; i < count && reader.ok(); ++i) values.push_back(reader.ReadSignedVarInt());
  return values;
}

Attribute ReadInteger(ByteReader& reader, ElementType type) {
  const int bits = type == ElementType::kI1 ? 1 : ElementBits(type);
  const int64_t raw =
      bits <= 8 ? static_cast<int8_t>(reader.ReadByte()) : reader.ReadSignedVarInt();
  // Only the low bits count, as in the buffer form.
  const int64_t value = IntFromElement(type, ElementFromInt(type, raw));
  if (type == ElementType::kI1) return value != 0;
  if (type == ElementType::kI64) return value;
  return TypedInt{type, value};
}

double ReadFloat(ByteReader& reader, ElementType type) {
  if (!IsFloat(type)) {
    reader.Fail("a floating-point attribute's type is not floating-point");
    return 0;
  }
  const uint64_t bits =
      ElementBits(type) <= 8 ? reader.ReadByte() : static_cast<uint64_t>(reader.ReadSignedVarInt());
  char bytes[8];
  std::memcpy(bytes, &bits, sizeof(bits));
  return DoubleFromElement(type, std::string_view(bytes, sizeof(bytes)));
}

Attribute ReadTypedInteger(ByteReader& reader, Pool& pool) {
  const DecodedType* type = pool.GetType(reader.ReadVarInt());
  if (type == nullptr) return {};
  if (std::holds_alternative<IndexType>(*type)) {
    return RawAttr{absl::StrCat(reader.ReadSignedVarInt(), " : index")};
  }
  const auto* element = std::get_if<ElementType>(type);
  if (element == nullptr || (*element != ElementType::kI1 && !IsInteger(*element))) {
    reader.Fail("an integer attribute's type is no integer type");
    return {};
  }
  return ReadInteger(reader, *element);
}

DecodedAttribute ReadDictionary(ByteReader& reader, Pool& pool) {
  RawDict raw;
  bool plain = true;
  const size_t count = reader.ReadCount(2);
  raw.entries.reserve(count);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    const auto* name = pool.ReadValue<std::string>(reader, "name");
    const DecodedAttribute* value = pool.GetAttribute(reader.ReadVarInt());
    if (name == nullptr || value == nullptr) return {};
    plain = plain && std::holds_alternative<Attribute>(*value);
    raw.entries.emplace_back(*name, value);
  }
  if (!plain) return std::make_shared<const RawDict>(std::move(raw));
  AttrDict dict;
  for (const auto& [name, value] : raw.entries) Set(dict, name, std::get<Attribute>(*value));
  return Attribute(std::make_shared<const AttrDict>(std::move(dict)));
}

DecodedAttribute ReadArray(ByteReader& reader, Pool& pool) {
  AttrArray array;
  std::vector<SdyAxisRef> axes;
  MeshAxes mesh_axes;
  const size_t count = reader.ReadCount();
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    const DecodedAttribute* element = pool.GetAttribute(reader.ReadVarInt());
    if (element == nullptr) return {};
    if (const auto* value = std::get_if<Attribute>(element)) {
      array.push_back(*value);
    } else if (const auto* axis = std::get_if<SdyAxisRef>(element)) {
      axes.push_back(*axis);
    } else if (const auto* mesh_axis = std::get_if<SdyMesh::Axis>(element)) {
      mesh_axes.axes.push_back(*mesh_axis);
    } else {
      reader.Fail("an array has an element of a kind that arrays can't have");
    }
  }
  if (array.size() == count) return Attribute(std::make_shared<const AttrArray>(std::move(array)));
  if (axes.size() == count) return Attribute(std::move(axes));
  if (mesh_axes.axes.size() == count) return mesh_axes;
  reader.Fail("an array mixes kinds of elements");
  return {};
}

DecodedAttribute ReadTypeAttribute(ByteReader& reader, Pool& pool) {
  const DecodedType* type = pool.GetType(reader.ReadVarInt());
  if (type == nullptr) return {};
  if (const auto* value = std::get_if<Type>(type)) return Attribute(*value);
  if (const auto* function = std::get_if<FunctionType>(type)) return FunctionTypeRef{function};
  if (const auto* element = std::get_if<ElementType>(type)) {
    return Attribute(RawAttr{std::string(ElementTypeName(*element))});
  }
  if (std::holds_alternative<IndexType>(*type)) return Attribute(RawAttr{"index"});
  if (std::holds_alternative<NoneType>(*type)) return NoneTypeAttr{};
  if (const auto* unsupported = std::get_if<UnsupportedType>(type)) {
    reader.errors()->Unimplemented(unsupported->name);
  }
  return {};
}

std::vector<Type> ReadTypes(ByteReader& reader, Pool& pool) {
  const size_t count = reader.ReadCount();
  std::vector<Type> types;
  types.reserve(count);
  for (size_t i = 0; i < count && reader.ok(); ++i) types.push_back(pool.ReadType(reader));
  return types;
}

}  // namespace shardway::ir::bytecode
