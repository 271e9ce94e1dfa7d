// Types of values in the IR: tensors, tokens, tuples, and the futures and buffers of asynchronous
// operators.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "shardway/base/element_type.h"

namespace shardway::ir {

using Dims = absl::InlinedVector<int64_t, 6>;

inline constexpr int64_t kDynamic =
    -1;  // a dimension whose size is known only when the program runs

// A value type; copied freely.
struct Type {
  enum class Kind : uint8_t { kTensor, kToken, kTuple, kFuture, kBuffer };

  Kind kind = Kind::kTensor;
  ElementType element = ElementType::kInvalid;  // of a tensor or buffer
  Dims dims;                                    // of a tensor or buffer; empty: a scalar
  std::shared_ptr<const std::vector<int64_t>>
      bounds;                                      // upper bounds of dynamic dimensions, or null
  std::shared_ptr<const std::vector<Type>> tuple;  // elements of a tuple or future

  static Type Tensor(ElementType element, absl::Span<const int64_t> dims);
  static Type Scalar(ElementType element) { return Tensor(element, {}); }
  static Type Token();
  static Type Tuple(std::vector<Type> elements);
  static Type Future(std::vector<Type> elements);                           // of async_start
  static Type Buffer(ElementType element, absl::Span<const int64_t> dims);  // of custom calls

  bool is_tensor() const { return kind == Kind::kTensor; }
  bool is_token() const { return kind == Kind::kToken; }
  bool is_tuple() const { return kind == Kind::kTuple; }
  bool is_future() const { return kind == Kind::kFuture; }
  bool is_buffer() const { return kind == Kind::kBuffer; }
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t dim(int i) const { return dims[i]; }
  bool is_static() const;        // no dynamic dimension
  int64_t num_elements() const;  // of a static tensor; 1 for a scalar; saturates at INT64_MAX
  int64_t num_bytes() const;     // of a static tensor on the CPU; 0 for a token; saturates too

  // The same tensor with other dimensions.
  Type WithDims(absl::Span<const int64_t> new_dims) const { return Tensor(element, new_dims); }

  // MLIR's spelling: "tensor<4x?xf32>", "!stablehlo.token", "tuple<…>", "memref<4xf32>".
  std::string ToString() const;
  void AppendTo(std::string& out) const;

  friend bool operator==(const Type& a, const Type& b);
};

}  // namespace shardway::ir
