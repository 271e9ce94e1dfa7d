// A program's boundary as messages carry it.
#pragma once

#include "shardway/compile/compile.h"
#include "shardway/wire/session.pb.h"

namespace shardway::controller {

void ToProto(const compile::Boundary& boundary, wire::BoundaryProto* proto);

}  // namespace shardway::controller
