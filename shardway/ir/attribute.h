// Attributes of operators, in a normal form that does not depend on the artifact's version: absent
// optional attributes are absent, integer lists are lists of int64, StableHLO enumerations keep
// their kind and spelling.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "shardway/ir/sdy.h"
#include "shardway/ir/type.h"

namespace shardway::ir {

// The elements of a constant. `bytes` is in the CPU's buffer form: row-major, little endian, one
// byte per element for i1 and every other sub-byte type; a splat holds ONE element. The bytes
// belong to `owner` (often the artifact itself: a big constant is not copied).
struct Constant {
  Type type;
  std::string_view bytes;
  bool splat = false;
  std::shared_ptr<const void> owner;

  static Constant Copy(Type type, std::string_view bytes, bool splat);
  // All elements in full, whether a splat or not.
  std::string Materialize() const;
};

// #stablehlo<precision DEFAULT>: kind "precision", value "DEFAULT".
struct EnumAttr {
  std::string kind;
  std::string value;
  friend bool operator==(const EnumAttr&, const EnumAttr&) = default;
};

// A typed integer or float, e.g. `1 : i32`, `1.0e-5 : f32`. Plain `int64_t` is i64.
struct TypedInt {
  ElementType type = ElementType::kI64;
  int64_t value = 0;
  friend bool operator==(const TypedInt&, const TypedInt&) = default;
};
struct TypedFloat {
  ElementType type = ElementType::kF64;
  double value = 0;
  friend bool operator==(const TypedFloat&, const TypedFloat&) = default;
};

// An attribute known only by its MLIR text, printed back as it is
// (e.g. "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>").
struct RawAttr {
  std::string text;
  friend bool operator==(const RawAttr&, const RawAttr&) = default;
};

struct FlatSymbolRef {  // @name
  std::string name;
  friend bool operator==(const FlatSymbolRef&, const FlatSymbolRef&) = default;
};

struct Attribute;
using AttrArray = std::vector<Attribute>;
// Sorted by name.
using AttrDict = std::vector<std::pair<std::string, Attribute>>;

struct SdyPerValue {  // one sharding for each operand or result
  std::vector<SdySharding> shardings;
};
struct SdyManualAxes {
  std::vector<std::string> axes;
};

// One attribute. `Unit` is an attribute that only exists (`tf.aliasing_output` has a value,
// `jax.buffer_donor` is a bool, `no_inline` is a unit).
struct Unit {
  friend bool operator==(const Unit&, const Unit&) = default;
};
struct Attribute {
  using Value =
      std::variant<Unit, bool, int64_t, std::string, std::vector<int64_t>, std::vector<bool>,
                   TypedInt, TypedFloat, EnumAttr, RawAttr, FlatSymbolRef, Type, Constant,
                   std::shared_ptr<const AttrArray>, std::shared_ptr<const AttrDict>, SdySharding,
                   SdyPerValue, SdyManualAxes, SdyMesh, SdyShardingRule, std::vector<SdyAxisRef>,
                   std::vector<std::vector<SdyAxisRef>>>;
  Value value;

  Attribute() = default;
  template <typename T>
    requires(!std::is_same_v<std::decay_t<T>, Attribute> && std::is_constructible_v<Value, T &&>)
  Attribute(T&& v) : value(std::forward<T>(v)) {}  // NOLINT: implicit on purpose

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
};

// Looks `name` up in a sorted dictionary; null when absent.
const Attribute* Find(const AttrDict& dict, std::string_view name);
// Sets (or replaces) `name`, keeping the order.
void Set(AttrDict& dict, std::string_view name, Attribute value);
void Erase(AttrDict& dict, std::string_view name);

}  // namespace shardway::ir
