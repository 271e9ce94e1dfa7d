// What error messages call a program's arguments and results, its meshes and their axes.
#pragma once

#include <cstddef>
#include <string>

#include "shardway/ir/module.h"

namespace shardway::ir {

// "argument 0 (params['w']: tensor<8x16xf32>) at train.py:12:3": with the name and the line where
// the module has them.
std::string NameOfArgument(const Function& function, size_t i);
std::string NameOfResult(const Function& function, size_t i);

// "x=4,y=2", as it is written for `shardway compile --mesh`.
std::string NameOfAxes(const SdyMesh& mesh);
// "x", or "x:(2)2" for a part of it: both quoted.
std::string NameOfAxis(const SdyAxisRef& axis);

}  // namespace shardway::ir
