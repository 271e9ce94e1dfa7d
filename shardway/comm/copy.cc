#include "shardway/comm/copy.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"

namespace shardway::comm {

void CopyPart(const PartCopy& copy, const char* source, int64_t source_part, char* target,
              int64_t target_part) {
  const int rank = static_cast<int>(copy.dims.size());
  // From dimension `inner` on, a part lies contiguously on both sides.
  const int inner = static_cast<int>(std::max(copy.split, copy.concat));
  absl::InlinedVector<int64_t, 8> source_stride(rank), target_stride(rank);
  int64_t source_step = copy.element_bytes, target_step = copy.element_bytes;
  int64_t run = copy.element_bytes;
  for (int d = rank - 1; d >= 0; --d) {
    source_stride[d] = source_step;
    target_stride[d] = target_step;
    source_step *= copy.dims[d] * (d == copy.split ? copy.split_parts : 1);
    target_step *= copy.dims[d] * (d == copy.concat ? copy.concat_parts : 1);
    if (d >= inner) run *= copy.dims[d];
  }
  int64_t runs = 1;
  for (int d = 0; d < inner; ++d) runs *= copy.dims[d];
  if (run == 0 || runs == 0) return;

  source += source_part * copy.dims[copy.split] * source_stride[copy.split];
  target += target_part * copy.dims[copy.concat] * target_stride[copy.concat];
  absl::InlinedVector<int64_t, 8> at(inner, 0);
  for (;;) {
    std::memcpy(target, source, run);
    // The next run: an odometer over the outer dimensions.
    int d = inner - 1;
    for (; d >= 0; --d) {
      source += source_stride[d];
      target += target_stride[d];
      if (++at[d] < copy.dims[d]) break;
      source -= source_stride[d] * copy.dims[d];
      target -= target_stride[d] * copy.dims[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace shardway::comm
