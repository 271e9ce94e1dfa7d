// Attributes of operators, in a normal form that does not depend on the artifact's version.
//
//   std::vector<int64_t>   every list of integers of the specification: dims, sizes, permutation,
//                          window_strides, fft_length, …; also the two-dimensional `padding` and
//                          `source_target_pairs`, row by row: low0, high0, low1, high1, …
//   std::vector<bool>      window_reversal
//   Constant               `value` of constant; `replica_groups`, a tensor<groups x members x i64>,
//                          padded with -1 where groups differ in size (see Constant::Ints), groups
//                          written as mesh axes being spelled out
//   int64_t                dimension, feature_group_count, channel_id, index_vector_dim, …
//   TypedInt               what is not i64: `index` and exponent_bits (i32), api_version (i32)
//   EnumAttr               comparison_direction, compare_type (kind comparison_type), fft_type,
//                          rng_algorithm, rng_distribution, transpose_a (kind transpose)
//   AttrArray              precision_config, of EnumAttr; operand_layouts and result_layouts, of
//                          lists of int64 (result_tilings: of arrays of such); called_computations,
//                          of symbols
//   FlatSymbolRef          callee, decomposition
//   bool                   is_stable, use_global_device_ids, has_side_effect, …
//   Type                   the types of a dot_general's algorithm (scalars)
//   RawAttr                result_accuracy
//
// Dimension numbers, channel handles and the dot algorithm are flattened as in VHLO
// ("lhs_batching_dimensions", "channel_id", …); the text writer puts them together again. What says
// "nothing given" in VHLO is absent here: a false flag, channel_id 0, an empty backend_config, an
// all-DEFAULT precision_config, compare_type NOTYPE, no layouts. Window strides, dilations,
// reversal and padding are always given in full.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
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
  // The elements of a small constant of integers or booleans, in full.
  std::vector<int64_t> Ints() const;
  static Constant FromInts(Type type, absl::Span<const int64_t> values);
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
struct SdyAllToAllParams {
  struct Param {
    std::vector<SdyAxisRef> axes;
    int64_t source_dim = 0;
    int64_t target_dim = 0;
  };
  std::vector<Param> params;
};
// One alias of a custom call: result at `output_tuple_indices` is operand `operand_index` (there at
// `operand_tuple_indices`).
struct OutputOperandAlias {
  std::vector<int64_t> output_tuple_indices;
  int64_t operand_index = 0;
  std::vector<int64_t> operand_tuple_indices;
};

// An attribute that only exists.
struct Unit {
  friend bool operator==(const Unit&, const Unit&) = default;
};
struct Attribute {
  using Value =
      std::variant<Unit, bool, int64_t, std::string, std::vector<int64_t>, std::vector<bool>,
                   TypedInt, TypedFloat, EnumAttr, RawAttr, FlatSymbolRef, Type, Constant,
                   std::shared_ptr<const AttrArray>, std::shared_ptr<const AttrDict>, SdySharding,
                   SdyPerValue, SdyManualAxes, SdyMesh, SdyShardingRule, std::vector<SdyAxisRef>,
                   std::vector<std::vector<SdyAxisRef>>, SdyAllToAllParams, OutputOperandAlias>;
  Value value;

  Attribute() = default;
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, Attribute> && std::is_constructible_v<Value, T&&>)
      Attribute(T&& v)
      : value(std::forward<T>(v)) {}  // NOLINT: implicit on purpose

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
