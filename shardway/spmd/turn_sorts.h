// Sorts that are reversed, as jnp.sort and jnp.argsort write descending ones, sort the other way
// round: to reverse a split dimension exchanges all its tiles.
//
//   reverse(sort(reverse(x)))   sort(x) by the comparator turned round: ties come as they did
//   reverse(sort(x))            likewise } where elements that the comparator takes for equal are
//   sort(reverse(x))            sort(x)  } the same for every user (TiesAreAlike)
//
// Of other sorts one reversal alone also turns the order of ties: it stays. So does that of a sort
// that need not be stable: what it makes of ties should be what one device makes of them.
#pragma once

#include "shardway/spmd/program.h"

namespace shardway::spmd {

// In the whole program. To be called before ShortenSorts and before rules are made.
void TurnSorts(Program& program);

}  // namespace shardway::spmd
