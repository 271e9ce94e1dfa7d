// The order in which a sort of the user's puts elements, for the sorts and comparisons that the
// partitioner makes of it. Elements that the comparator takes for equal may be told apart by their
// *place* in the whole, an integer operand behind the user's: what is sorted in pieces stays
// stable.
#pragma once

#include <vector>

#include "shardway/spmd/room.h"

namespace shardway::spmd {

int64_t SortedDim(const ir::Op& sort);

// Whether two elements that the comparator takes for equal are the same for every user: one
// operand, compared itself, or with all NaNs and both zeros made one.
bool TiesAreAlike(const ir::Op& sort);

// `operands`, sorted. With `by_place` the last of them is the place. What `padding` (i1, may be
// null) marks comes last, whatever the comparator makes of it.
LocalResults SortInOrder(LocalOp& local, std::vector<ir::Value*> operands, bool by_place,
                         ir::Value* padding);

// i1, elementwise: whether `left` comes before `right`.
absl::StatusOr<ir::Value*> ComesBefore(LocalOp& local, const std::vector<ir::Value*>& left,
                                       const std::vector<ir::Value*>& right, bool by_place);

}  // namespace shardway::spmd
