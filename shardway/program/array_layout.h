// What the controller knows of an array: one handle whatever the number of its shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardway/base/element_type.h"
#include "shardway/topology/slice.h"

namespace shardway::program {

struct ArrayLayout {
  ElementType element = ElementType::kInvalid;
  std::vector<int64_t> shard_dims;         // every shard has this shape
  const topology::Slice* slice = nullptr;  // shard i is on slice->devices[i]
  int64_t shard_bytes = 0;

  std::string ToString() const;  // "f32[4,8] on 8 devices"
};

using ArrayLayoutPtr = std::shared_ptr<const ArrayLayout>;

}  // namespace shardway::program
