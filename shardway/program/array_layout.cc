#include "shardway/program/array_layout.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::program {

std::string ArrayLayout::ToString() const {
  std::string where;
  if (slice->devices.size() == 1) {
    where = absl::StrCat("device ", slice->devices[0]);
  } else if (slice->devices.size() <= 8) {
    where = absl::StrCat("devices ", absl::StrJoin(slice->devices, ","));
  } else {
    where = absl::StrCat(slice->devices.size(), " devices");
  }
  return absl::StrCat(std::string(ElementTypeName(element)), "[", absl::StrJoin(shard_dims, ","),
                      "] on ", where);
}

}  // namespace shardway::program
