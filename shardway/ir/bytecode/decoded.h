// What an entry of the attribute or type section means once decoded. Most attributes are an
// ir::Attribute at once; the rest are parts that only make sense inside others, or locations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shardway/ir/attribute.h"
#include "shardway/ir/module.h"
#include "shardway/ir/type.h"

namespace shardway::ir::bytecode {

struct FunctionType {
  std::vector<Type> inputs;
  std::vector<Type> results;
};
struct NoneType {};
struct IndexType {};  // no value has it, but attributes do
// A type that no value of ours may have; an error once it is needed.
struct UnsupportedType {
  std::string name;
  std::optional<std::vector<int64_t>> index_shape;  // of a tensor of index: layouts have it
};

using DecodedType = std::variant<std::monostate, Type, ElementType, FunctionType, NoneType,
                                 IndexType, UnsupportedType>;

struct SubAxis {
  int64_t pre_size = 1;
  int64_t size = 1;
};
struct DimMapping {
  std::vector<int64_t> factors;
};
struct TensorMapping {
  SdyShardingRule::TensorMapping dims;
};
struct Bounds {
  std::vector<int64_t> bounds;
};
struct AccuracyMode {
  std::string_view name;
};
struct Accuracy {
  double atol = 0;
  double rtol = 0;
  int64_t ulps = 0;
  std::string_view mode;
};
// A TypeAttr of something that is no ir::Type.
struct FunctionTypeRef {
  const FunctionType* type;
};
struct NoneTypeAttr {};
struct MeshAxes {
  std::vector<SdyMesh::Axis> axes;
};
// Replica groups written as axes of a mesh, by its symbol or in place.
struct MeshAxisGroups {
  std::string mesh_name;
  std::optional<SdyMesh> mesh;
  std::vector<SdyAxisRef> axes;
};

struct RawDict;

using DecodedAttribute =
    std::variant<std::monostate, Attribute, const Location*, SdyMesh::Axis, SubAxis, SdyAxisRef,
                 SdyDimSharding, DimMapping, TensorMapping, SdyAllToAllParams::Param, Bounds,
                 AccuracyMode, Accuracy, FunctionTypeRef, NoneTypeAttr, MeshAxes, MeshAxisGroups,
                 std::shared_ptr<const RawDict>>;

// A dictionary with values that are no ir::Attribute: an operator's, before bytecode version 5.
// The values stand in the pool.
struct RawDict {
  std::vector<std::pair<std::string, const DecodedAttribute*>> entries;
};

}  // namespace shardway::ir::bytecode
