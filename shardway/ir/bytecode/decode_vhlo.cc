// The versioned dialect's attributes and types, by the codes of docs/vhlo.md.
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "shardway/ir/bytecode/pool.h"

namespace shardway::ir::bytecode {
namespace {

enum AttributeCode : uint64_t {
  kArray = 1,
  kBoolean = 2,
  kComparisonDirection = 3,
  kComparisonType = 4,
  kApiVersion = 5,
  kDictionary = 6,
  kFftType = 7,
  kFloat = 8,
  kInteger = 9,
  kOutputOperandAlias = 10,
  kPrecision = 11,
  kRngAlgorithm = 12,
  kRngDistribution = 13,
  kString = 14,
  kTensor = 15,
  kTranspose = 16,
  kTypeAttr = 17,
  kTypeExtensions = 18,
  kAccuracyMode = 19,
  kAccuracy = 20,
  kSubAxisInfo = 21,
  kAxisRef = 22,
  kReplicaGroupMeshAxes = 23,
  kMeshAxis = 24,
  kMesh = 25,
};

enum TypeCode : uint64_t {
  kComplex = 1,
  kFunction = 8,
  kIndex = 9,
  kRankedTensor = 20,
  kRankedTensorWithEncoding = 21,
  kToken = 22,
  kTuple = 23,
  kQuantized = 24,
  kUnranked = 25,
  kWitness = 26,
  kQuantizedPerAxis = 30,
  kNone = 33,
  kRankedBuffer = 41,
  kFuture = 42,
  kNumTypeCodes = 43,
};

// The element types have no parameters: their code says all.
constexpr std::array<ElementType, kNumTypeCodes> kElements = [] {
  std::array<ElementType, kNumTypeCodes> types = {};
  types[0] = ElementType::kI1;
  types[2] = ElementType::kBF16;
  types[3] = ElementType::kF16;
  types[4] = ElementType::kF32;
  types[5] = ElementType::kF64;
  types[6] = ElementType::kF8E4M3FN;
  types[7] = ElementType::kF8E5M2;
  types[10] = ElementType::kI4;
  types[11] = ElementType::kI8;
  types[12] = ElementType::kI16;
  types[13] = ElementType::kI32;
  types[14] = ElementType::kI64;
  types[15] = ElementType::kUI4;
  types[16] = ElementType::kUI8;
  types[17] = ElementType::kUI16;
  types[18] = ElementType::kUI32;
  types[19] = ElementType::kUI64;
  types[27] = ElementType::kF8E4M3FNUZ;
  types[28] = ElementType::kF8E5M2FNUZ;
  types[29] = ElementType::kF8E4M3B11FNUZ;
  types[31] = ElementType::kI2;
  types[32] = ElementType::kUI2;
  types[34] = ElementType::kTF32;
  types[35] = ElementType::kF8E4M3;
  types[36] = ElementType::kF8E3M4;
  types[37] = ElementType::kF4E2M1FN;
  types[38] = ElementType::kF6E2M3FN;
  types[39] = ElementType::kF6E3M2FN;
  types[40] = ElementType::kF8E8M0FNU;
  return types;
}();

constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
constexpr std::string_view kComparisonTypes[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED",
                                                 "UNSIGNED"};
constexpr std::string_view kFftTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
constexpr std::string_view kPrecisions[] = {"DEFAULT", "HIGH", "HIGHEST"};
constexpr std::string_view kAlgorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
constexpr std::string_view kDistributions[] = {"", "UNIFORM", "NORMAL"};
constexpr std::string_view kTransposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE",
                                            "ADJOINT"};
constexpr std::string_view kAccuracyModes[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};

template <size_t N>
std::string_view ReadEnumerator(ByteReader& reader, const std::string_view (&names)[N]) {
  const uint64_t value = reader.ReadVarInt();
  if (value >= N || names[value].empty()) {
    reader.Fail("an enumeration has an unknown value");
    return {};
  }
  return names[value];
}

template <size_t N>
Attribute ReadEnum(ByteReader& reader, std::string_view kind, const std::string_view (&names)[N]) {
  return EnumAttr{std::string(kind), std::string(ReadEnumerator(reader, names))};
}

bool ReadFlag(ByteReader& reader) {
  const uint64_t value = reader.ReadVarInt();
  if (value > 1) reader.Fail("a flag is neither 0 nor 1");
  return value == 1;
}

// A list of index numbers (a layout) has no element type of ours: it becomes a list of integers.
Attribute DecodeIndexTensor(ByteReader& reader, Pool& pool, const std::vector<int64_t>& shape) {
  const std::string_view blob = reader.ReadBlob();
  uint64_t count = 1;
  for (const int64_t d : shape) {
    if (d < 0 || d > (1 << 20)) reader.Fail("a list of indices has a strange shape");
    count *= static_cast<uint64_t>(d);
  }
  if (shape.size() != 1 || (blob.size() != count * 8 && blob.size() != 8)) {
    reader.Fail("a list of indices is malformed");
  }
  if (!reader.ok() || !pool.Charge(count)) return {};
  std::vector<int64_t> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = blob.size() == 8 ? 0 : i * 8;
    std::memcpy(&values[i], blob.data() + at, 8);
  }
  return values;
}

Attribute DecodeTensor(ByteReader& reader, Pool& pool) {
  const DecodedType* decoded = pool.GetType(reader.ReadVarInt());
  if (decoded == nullptr) return {};
  if (const auto* unsupported = std::get_if<UnsupportedType>(decoded)) {
    if (unsupported->index_shape) {
      return DecodeIndexTensor(reader, pool, *unsupported->index_shape);
    }
    reader.errors()->Unimplemented(unsupported->name);
    return {};
  }
  const Type* type = std::get_if<Type>(decoded);
  if (type == nullptr) {
    reader.Fail("a constant is no tensor");
    return {};
  }
  return MakeConstant(reader, pool, *type, reader.ReadBlob());
}

Attribute DecodeAlias(ByteReader& reader) {
  OutputOperandAlias alias;
  alias.output_tuple_indices = ReadSignedList(reader);
  alias.operand_index = reader.ReadSignedVarInt();
  alias.operand_tuple_indices = ReadSignedList(reader);
  return alias;
}

DecodedAttribute DecodeAccuracy(ByteReader& reader, Pool& pool) {
  Accuracy accuracy;
  accuracy.atol = ReadFloat(reader, ElementType::kF64);
  accuracy.rtol = ReadFloat(reader, ElementType::kF64);
  accuracy.ulps = reader.ReadSignedVarInt();
  if (const auto* mode = pool.Read<AccuracyMode>(reader, "accuracy mode")) {
    accuracy.mode = mode->name;
  }
  return accuracy;
}

DecodedAttribute DecodeAxisRef(ByteReader& reader, Pool& pool) {
  SdyAxisRef axis;
  if (const auto* name = pool.ReadValue<std::string>(reader, "axis name")) axis.name = *name;
  if (ReadFlag(reader)) {
    if (const auto* sub = pool.Read<SubAxis>(reader, "sub-axis")) {
      axis.sub_axis = {sub->pre_size, sub->size};
    }
  }
  return axis;
}

DecodedAttribute DecodeMeshAxisGroups(ByteReader& reader, Pool& pool) {
  MeshAxisGroups groups;
  const auto* mesh = pool.Read<Attribute>(reader, "mesh");
  if (mesh == nullptr) return {};
  if (const auto* name = mesh->get_if<std::string>()) {
    groups.mesh_name = *name;
  } else if (const auto* in_place = mesh->get_if<SdyMesh>()) {
    groups.mesh = *in_place;
  } else {
    reader.Fail("replica groups name no mesh");
  }
  const auto* axes = pool.ReadValue<std::vector<SdyAxisRef>>(reader, "list of axes");
  if (axes != nullptr) groups.axes = *axes;
  return groups;
}

DecodedAttribute DecodeMesh(ByteReader& reader, Pool& pool) {
  SdyMesh mesh;
  const auto* axes = pool.Read<MeshAxes>(reader, "list of mesh axes");
  if (axes != nullptr) mesh.axes = axes->axes;
  const auto [index, present] = reader.ReadVarIntWithFlag();
  if (present) {
    const DecodedAttribute* ids = pool.GetAttribute(index);
    const auto* attribute = ids == nullptr ? nullptr : std::get_if<Attribute>(ids);
    const auto* constant = attribute == nullptr ? nullptr : attribute->get_if<Constant>();
    if (constant == nullptr || !pool.Charge(constant->type.num_elements())) {
      reader.Fail("a mesh's device ids are no list");
    } else {
      mesh.device_ids = constant->Ints();
    }
  }
  return Attribute(std::move(mesh));
}

std::string QuantizedName(ByteReader& reader, Pool& pool) {
  reader.ReadVarInt();  // flags
  const ElementType storage = pool.ReadElementType(reader);
  const ElementType expressed = pool.ReadElementType(reader);
  return absl::StrCat("the quantized type !quant.uniform<", std::string(ElementTypeName(storage)),
                      ":", std::string(ElementTypeName(expressed)),
                      ", …>: quantized types are not supported");
}

}  // namespace

DecodedAttribute DecodeVhloAttribute(ByteReader& reader, Pool& pool) {
  const uint64_t code = reader.ReadVarInt();
  switch (code) {
    case kArray:
      return ReadArray(reader, pool);
    case kBoolean:
      return Attribute(ReadFlag(reader));
    case kComparisonDirection:
      return ReadEnum(reader, "comparison_direction", kDirections);
    case kComparisonType:
      return ReadEnum(reader, "comparison_type", kComparisonTypes);
    case kApiVersion: {
      const auto version = static_cast<int64_t>(reader.ReadVarInt());
      if (version < 0 || version > 4) reader.Fail("a custom call's API version is unknown");
      return Attribute(TypedInt{ElementType::kI32, version});
    }
    case kDictionary:
      return ReadDictionary(reader, pool);
    case kFftType:
      return ReadEnum(reader, "fft_type", kFftTypes);
    case kFloat: {
      const ElementType type = pool.ReadElementType(reader);
      return Attribute(TypedFloat{type, ReadFloat(reader, type)});
    }
    case kInteger:
      return ReadTypedInteger(reader, pool);
    case kOutputOperandAlias:
      return DecodeAlias(reader);
    case kPrecision:
      return ReadEnum(reader, "precision", kPrecisions);
    case kRngAlgorithm:
      return ReadEnum(reader, "rng_algorithm", kAlgorithms);
    case kRngDistribution:
      return ReadEnum(reader, "rng_distribution", kDistributions);
    case kString:
      return Attribute(std::string(pool.String(reader)));
    case kTensor:
      return DecodeTensor(reader, pool);
    case kTranspose:
      return ReadEnum(reader, "transpose", kTransposes);
    case kTypeAttr:
      return ReadTypeAttribute(reader, pool);
    case kTypeExtensions:
      return Bounds{ReadSignedList(reader)};
    case kAccuracyMode:
      return AccuracyMode{ReadEnumerator(reader, kAccuracyModes)};
    case kAccuracy:
      return DecodeAccuracy(reader, pool);
    case kSubAxisInfo: {
      SubAxis sub;
      sub.pre_size = reader.ReadSignedVarInt();
      sub.size = reader.ReadSignedVarInt();
      return sub;
    }
    case kAxisRef:
      return DecodeAxisRef(reader, pool);
    case kReplicaGroupMeshAxes:
      return DecodeMeshAxisGroups(reader, pool);
    case kMeshAxis: {
      SdyMesh::Axis axis;
      if (const auto* name = pool.ReadValue<std::string>(reader, "axis name")) axis.name = *name;
      axis.size = reader.ReadSignedVarInt();
      return axis;
    }
    case kMesh:
      return DecodeMesh(reader, pool);
    default:
      reader.errors()->Unimplemented(absl::StrCat("the VHLO attribute with code ", code));
      return {};
  }
}

DecodedType DecodeVhloType(ByteReader& reader, Pool& pool) {
  const uint64_t code = reader.ReadVarInt();
  if (code < kNumTypeCodes && kElements[code] != ElementType::kInvalid) return kElements[code];
  switch (code) {
    case kComplex: {
      const ElementType part = pool.ReadElementType(reader);
      if (part == ElementType::kF32) return ElementType::kC64;
      if (part == ElementType::kF64) return ElementType::kC128;
      return UnsupportedType{"a complex type of other than f32 and f64"};
    }
    case kFunction: {
      FunctionType function;
      function.inputs = ReadTypes(reader, pool);
      function.results = ReadTypes(reader, pool);
      return function;
    }
    case kIndex:
      return IndexType{};
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
    case kToken:
      return Type::Token();
    case kTuple:
      return Type::Tuple(ReadTypes(reader, pool));
    case kQuantized: {
      UnsupportedType type{QuantizedName(reader, pool)};
      reader.ReadSignedVarInt();  // scale: an f64's bits
      for (int i = 0; i < 3; ++i) reader.ReadSignedVarInt();
      return type;
    }
    case kQuantizedPerAxis: {
      UnsupportedType type{QuantizedName(reader, pool)};
      reader.ReadBytes(reader.remaining());
      return type;
    }
    case kUnranked:
      reader.ReadVarInt();
      return UnsupportedType{"a tensor without a rank"};
    case kWitness:
      return UnsupportedType{"the type witness"};
    case kNone:
      return NoneType{};
    case kRankedBuffer: {
      std::vector<int64_t> shape = ReadSignedList(reader);
      DecodedType buffer = MakeTensor(reader, std::move(shape), pool.GetType(reader.ReadVarInt()));
      if (Type* type = std::get_if<Type>(&buffer)) type->kind = Type::Kind::kBuffer;
      return buffer;
    }
    case kFuture:
      return Type::Future(ReadTypes(reader, pool));
    default:
      reader.errors()->Unimplemented(absl::StrCat("the VHLO type with code ", code));
      return {};
  }
}

}  // namespace shardway::ir::bytecode
