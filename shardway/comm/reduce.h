// Combines arrays element by element, in the order given: ((s0 + s1) + s2) + … That order is all
// that decides the bits of a floating-point sum here, so whoever uses the same order gets the same
// bits. Floats of 16 bits and less are accumulated in float and rounded once.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "shardway/base/element_type.h"
#include "shardway/collective/spec.h"

namespace shardway::comm {

// Combines `count` elements at each of `sources` (≥ 1, any alignment of the element) into
// `destination`, which may be one of the sources. Any thread: sets XLA's float mode itself.
using ReduceFunction = void (*)(absl::Span<const char* const> sources, int64_t count,
                                char* destination);

// Null where the element type has no such reduction (and, or, xor of floats).
ReduceFunction FindReduce(ElementType element, collective::Reduction reduction);

}  // namespace shardway::comm
