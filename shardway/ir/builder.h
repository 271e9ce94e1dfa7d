// Builds operators with inferred result types, for our own programs and for the partitioner.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "shardway/ir/module.h"

namespace shardway::ir {

// Appends to one region of one module. Inputs must be well formed (this is for our code, not for
// outside input): shape mistakes are programming errors and abort in debug builds.
class Builder {
 public:
  Builder(Module* module, Region* region) : module_(module), region_(region) {}

  Module* module() const { return module_; }
  Region* region() const { return region_; }
  void set_region(Region* region) { region_ = region; }
  // Later operators carry this location.
  void set_location(const Location* location) { location_ = location; }
  const Location* location() const { return location_; }

  // Any operator, result types given.
  Op* Create(OpKind kind, absl::Span<Value* const> operands, absl::Span<const Type> result_types,
             AttrDict attributes = {});
  // Elementwise, result type = first operand's (compare and is_finite have their own).
  Value* Unary(OpKind kind, Value* x);
  Value* Binary(OpKind kind, Value* a, Value* b);

  // The halves of complex numbers, and back.
  Value* Real(Value* x);
  Value* Imag(Value* x);
  Value* Complex(Value* real, Value* imag);
  // An optimization_barrier around one value: what XLA must not see through.
  Value* Barrier(Value* x);

  // Constants: `value` converted to the element type.
  Value* Splat(const Type& type, double value);
  Value* SplatInt(const Type& type, int64_t value);
  Value* Constant(ir::Constant constant);
  Value* IntVector(ElementType element, absl::Span<const int64_t> values);  // 1-D

  Value* Iota(const Type& type, int64_t dimension);
  Value* Convert(Value* x, ElementType element);
  Value* Compare(std::string_view direction, Value* a, Value* b);  // compare_type by element type
  Value* Select(Value* predicate, Value* on_true, Value* on_false);
  Value* Clamp(Value* min, Value* x, Value* max);

  Value* Reshape(Value* x, absl::Span<const int64_t> dims);
  Value* Transpose(Value* x, absl::Span<const int64_t> permutation);
  Value* BroadcastInDim(Value* x, absl::Span<const int64_t> dims,
                        absl::Span<const int64_t> broadcast_dimensions);
  Value* Slice(Value* x, absl::Span<const int64_t> starts, absl::Span<const int64_t> limits,
               absl::Span<const int64_t> strides = {});
  Value* DynamicSlice(Value* x, absl::Span<Value* const> starts, absl::Span<const int64_t> sizes);
  Value* DynamicUpdateSlice(Value* x, Value* update, absl::Span<Value* const> starts);
  // Non-negative or negative edge padding, no interior.
  Value* Pad(Value* x, Value* padding_value, absl::Span<const int64_t> low,
             absl::Span<const int64_t> high);
  Value* Concatenate(absl::Span<Value* const> xs, int64_t dimension);
  Value* Tuple(absl::Span<Value* const> xs);
  Value* GetTupleElement(Value* x, int64_t index);

  void Return(absl::Span<Value* const> values);      // stablehlo.return
  void FuncReturn(absl::Span<Value* const> values);  // func.return

 private:
  Module* module_;
  Region* region_;
  const Location* location_ = nullptr;
};

}  // namespace shardway::ir
