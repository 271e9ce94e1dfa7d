// Several tensors of one shape and element width as one, so that one collective moves them all.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "shardway/ir/builder.h"

namespace shardway::spmd {

// The unsigned integer of as many bits; kInvalid where there is none.
ElementType UnsignedOf(int bits);
// The same bits as elements of a type of the same width.
ir::Value* Bitcast(ir::Builder& b, ir::Value* x, ElementType element);

// Side by side along a new major dimension, as unsigned integers. With one value only the dimension
// is new. Null when their elements have not all the same width, or are booleans or complex.
ir::Value* Pack(ir::Builder& b, absl::Span<ir::Value* const> values);
// The inverse, of a tensor in which the packed dimension is `dim`; `elements` as they were.
std::vector<ir::Value*> Unpack(ir::Builder& b, ir::Value* packed, int dim,
                               absl::Span<const ElementType> elements);

}  // namespace shardway::spmd
