// Shardy's attributes, in their own binary form.
#include <utility>

#include "shardway/ir/bytecode/pool.h"

namespace shardway::ir::bytecode {
namespace {

enum AttributeCode : uint64_t {
  kManualAxes = 0,
  kMeshAxis = 1,
  kMesh = 2,
  kSubAxisInfo = 3,
  kAxisRef = 4,
  kDimensionSharding = 5,
  kTensorSharding = 6,
  kShardingPerValue = 7,
  kDimMapping = 8,
  kTensorMapping = 9,
  kOpShardingRule = 10,
  kAxisRefList = 11,
  kListOfAxisRefLists = 12,
  kAllToAllParam = 13,
  kAllToAllParamList = 14,
  kTensorShardingUnreduced = 15,
  kShardingPerValueUnreduced = 16,
  kTensorShardingReduction = 17,
};

bool ReadBool(ByteReader& reader) {
  const uint8_t value = reader.ReadByte();
  if (value > 1) reader.Fail("a flag is neither 0 nor 1");
  return value == 1;
}

// A list of indices of attributes that decode to T.
template <typename T>
std::vector<T> ReadList(ByteReader& reader, Pool& pool, std::string_view what) {
  const size_t count = reader.ReadCount();
  std::vector<T> list;
  list.reserve(count);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    if (const T* element = pool.Read<T>(reader, what)) list.push_back(*element);
  }
  return list;
}

// The same for what stands inside an ir::Attribute.
template <typename T>
std::vector<T> ReadValueList(ByteReader& reader, Pool& pool, std::string_view what) {
  const size_t count = reader.ReadCount();
  std::vector<T> list;
  list.reserve(count);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    if (const T* element = pool.ReadValue<T>(reader, what)) list.push_back(*element);
  }
  return list;
}

std::vector<SdyAxisRef> ReadAxes(ByteReader& reader, Pool& pool) {
  return ReadList<SdyAxisRef>(reader, pool, "axis");
}

Attribute DecodeMesh(ByteReader& reader, Pool& pool) {
  SdyMesh mesh;
  mesh.axes = ReadList<SdyMesh::Axis>(reader, pool, "mesh axis");
  mesh.device_ids = ReadSignedList(reader);
  return mesh;
}

SdyAxisRef DecodeAxisRef(ByteReader& reader, Pool& pool) {
  SdyAxisRef axis;
  axis.name = std::string(pool.String(reader));
  const auto [index, present] = reader.ReadVarIntWithFlag();
  if (!present) return axis;
  const DecodedAttribute* decoded = pool.GetAttribute(index);
  const auto* sub = decoded == nullptr ? nullptr : std::get_if<SubAxis>(decoded);
  if (sub == nullptr) {
    reader.Fail("an attribute is no sub-axis");
  } else {
    axis.sub_axis = {sub->pre_size, sub->size};
  }
  return axis;
}

SdyDimSharding DecodeDimension(ByteReader& reader, Pool& pool) {
  SdyDimSharding dim;
  dim.axes = ReadAxes(reader, pool);
  dim.closed = ReadBool(reader);
  const auto [priority, present] = reader.ReadVarIntWithFlag();
  if (present) dim.priority = static_cast<int64_t>(priority);
  return dim;
}

// `code` says which of the later fields there are.
Attribute DecodeSharding(ByteReader& reader, Pool& pool, uint64_t code) {
  SdySharding sharding;
  if (const auto* mesh = pool.Read<Attribute>(reader, "mesh")) {
    if (const auto* symbol = mesh->get_if<FlatSymbolRef>()) {
      sharding.mesh_name = symbol->name;
    } else if (const auto* in_place = mesh->get_if<SdyMesh>()) {
      sharding.mesh = *in_place;
    } else {
      reader.Fail("a sharding names no mesh");
    }
  }
  sharding.dims = ReadList<SdyDimSharding>(reader, pool, "dimension's sharding");
  sharding.replicated = ReadAxes(reader, pool);
  if (code != kTensorSharding) sharding.unreduced = ReadAxes(reader, pool);
  if (code == kTensorShardingReduction) sharding.reduction = reader.ReadSignedVarInt();
  return sharding;
}

SdyShardingRule DecodeRule(ByteReader& reader, Pool& pool) {
  SdyShardingRule rule;
  auto mappings = [&] {
    std::vector<SdyShardingRule::TensorMapping> result;
    for (TensorMapping& m : ReadList<TensorMapping>(reader, pool, "tensor's mapping")) {
      result.push_back(std::move(m.dims));
    }
    return result;
  };
  rule.factor_sizes = ReadSignedList(reader);
  rule.operands = mappings();
  rule.results = mappings();
  rule.reduction_factors = ReadSignedList(reader);
  rule.need_replication_factors = ReadSignedList(reader);
  rule.permutation_factors = ReadSignedList(reader);
  rule.blocked_propagation_factors = ReadSignedList(reader);
  rule.is_custom = ReadBool(reader);
  return rule;
}

}  // namespace

DecodedAttribute DecodeSdyAttribute(ByteReader& reader, Pool& pool) {
  const uint64_t code = reader.ReadVarInt();
  switch (code) {
    case kManualAxes: {
      SdyManualAxes manual;
      manual.axes = ReadValueList<std::string>(reader, pool, "axis name");
      return Attribute(std::move(manual));
    }
    case kMeshAxis: {
      SdyMesh::Axis axis;
      axis.name = std::string(pool.String(reader));
      axis.size = reader.ReadSignedVarInt();
      return axis;
    }
    case kMesh:
      return DecodeMesh(reader, pool);
    case kSubAxisInfo: {
      SubAxis sub;
      sub.pre_size = reader.ReadSignedVarInt();
      sub.size = reader.ReadSignedVarInt();
      return sub;
    }
    case kAxisRef:
      return DecodeAxisRef(reader, pool);
    case kDimensionSharding:
      return DecodeDimension(reader, pool);
    case kTensorSharding:
    case kTensorShardingUnreduced:
    case kTensorShardingReduction:
      return DecodeSharding(reader, pool, code);
    case kShardingPerValue:
    case kShardingPerValueUnreduced:
      return Attribute(SdyPerValue{ReadValueList<SdySharding>(reader, pool, "sharding")});
    case kDimMapping:
      return DimMapping{ReadSignedList(reader)};
    case kTensorMapping: {
      TensorMapping mapping;
      for (DimMapping& m : ReadList<DimMapping>(reader, pool, "dimension's mapping")) {
        mapping.dims.push_back(std::move(m.factors));
      }
      return mapping;
    }
    case kOpShardingRule:
      return Attribute(DecodeRule(reader, pool));
    case kAxisRefList:
      return Attribute(ReadAxes(reader, pool));
    case kListOfAxisRefLists:
      return Attribute(ReadValueList<std::vector<SdyAxisRef>>(reader, pool, "list of axes"));
    case kAllToAllParam: {
      SdyAllToAllParams::Param param;
      param.axes = ReadAxes(reader, pool);
      param.source_dim = reader.ReadSignedVarInt();
      param.target_dim = reader.ReadSignedVarInt();
      return param;
    }
    case kAllToAllParamList:
      return Attribute(
          SdyAllToAllParams{ReadList<SdyAllToAllParams::Param>(reader, pool, "parameter")});
    default:
      reader.errors()->Unimplemented(absl::StrCat("the Shardy attribute with code ", code));
      return {};
  }
}

}  // namespace shardway::ir::bytecode
