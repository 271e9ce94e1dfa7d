#include "shardway/comm/work.h"

#include <algorithm>
#include <cstring>

#include "shardway/comm/copy.h"

namespace shardway::comm {
namespace {

using collective::Kind;
using collective::Shaped;

// Below this many bytes moved a second thread costs more than it brings.
constexpr int64_t kSplitBytes = int64_t{128} << 10;
constexpr int64_t kPieceBytes = int64_t{64} << 10;

// Index `piece` counted through the pieces of several arrays: which array, and which of its pieces.
int64_t PiecesOf(const Shaped& shape) {
  return std::max<int64_t>(1, (shape.num_bytes() + kPieceBytes - 1) / kPieceBytes);
}

struct Range {
  int64_t first = 0;
  int64_t count = 0;
};
Range PieceRange(const Shaped& shape, int64_t piece) {
  const int64_t per_piece = std::max<int64_t>(1, kPieceBytes / ElementBytes(shape.element));
  const int64_t elements = shape.num_elements();
  const int64_t first = std::min(elements, piece * per_piece);
  return {first,
          piece + 1 == PiecesOf(shape) ? elements - first : std::min(per_piece, elements - first)};
}

// An empty array's pointer may be null, which memcpy does not take.
void Copy(char* target, const char* source, int64_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
}

using Sources = absl::InlinedVector<const char*, 16>;

void AllReduceRange(const Work& work, int i, Range range) {
  if (range.count == 0) return;
  const int64_t element = ElementBytes(work.site->spec.operands[i].element);
  char* first = work.result(0, i) + range.first * element;
  ReduceRange(work, i, range.first, range.count, first);
  for (int local = 1; local < work.group->num_local(); ++local) {
    std::memcpy(work.result(local, i) + range.first * element, first, range.count * element);
  }
}

// Elements `range` of local member `local`'s result: each lies in a run of its part of the
// operands.
void ReduceScatterRange(const Work& work, int local, int i, Range range) {
  const collective::Spec& spec = work.site->spec;
  const Shaped& result = spec.results[i];
  const int64_t element = ElementBytes(result.element);
  const int64_t parts = static_cast<int64_t>(work.group->members.size());
  int64_t run = 1;
  for (size_t d = spec.dim0; d < result.dims.size(); ++d) run *= result.dims[d];
  Sources sources(parts);
  for (int64_t at = range.first, end = range.first + range.count; at < end;) {
    const int64_t outer = at / run, within = at % run;
    const int64_t count = std::min(run - within, end - at);
    const int64_t from = (outer * parts + work.group->local[local]) * run + within;
    for (int64_t s = 0; s < parts; ++s) {
      sources[s] = work.operand(work.group->sum_order[s], i) + from * element;
    }
    work.site->reduce[i](sources, count, work.result(local, i) + at * element);
    at += count;
  }
}

// What `member` contributes to local member `local`'s i-th result of an all-gather or all-to-all.
void CopyFrom(const Work& work, int local, int i, int member) {
  const collective::Spec& spec = work.site->spec;
  const int64_t n = static_cast<int64_t>(work.group->members.size());
  const Shaped& operand = spec.operands[i];
  absl::InlinedVector<int64_t, 8> dims(operand.dims.begin(), operand.dims.end());
  PartCopy copy{.element_bytes = ElementBytes(operand.element)};
  int64_t source_part = 0;
  if (spec.kind == Kind::kAllGather) {
    copy.split = copy.concat = spec.dim0;
  } else {
    dims[spec.dim0] /= n;
    copy.split = spec.dim0;
    copy.split_parts = n;
    copy.concat = spec.dim1;
    source_part = work.group->local[local];
  }
  copy.concat_parts = n;
  copy.dims = dims;
  CopyPart(copy, work.operand(member, i), source_part, work.result(local, i), member);
}

void Permute(const Work& work, int local) {
  const Member& target = work.group->members[work.group->local[local]];
  const int source = work.site->source_of_logical[target.logical];
  int from = -1;
  for (size_t m = 0; m < work.group->members.size(); ++m) {
    if (work.group->members[m].logical == source) from = static_cast<int>(m);
  }
  for (size_t i = 0; i < work.site->spec.results.size(); ++i) {
    const int64_t bytes = work.site->spec.results[i].num_bytes();
    if (from < 0 && bytes > 0) {
      std::memset(work.result(local, i), 0, bytes);
    } else if (from >= 0) {
      Copy(work.result(local, i), work.operand(from, i), bytes);
    }
  }
}

void Broadcast(const Work& work, int local) {
  for (size_t i = 0; i < work.site->spec.results.size(); ++i) {
    Copy(work.result(local, i), work.operand(0, i), work.site->spec.results[i].num_bytes());
  }
}

int64_t Index(ElementType type, const char* data, int64_t at) {
  const auto read = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, data + at * sizeof(T), sizeof(T));
    return static_cast<int64_t>(value);
  };
  switch (type) {
    case ElementType::kI8:
      return read(int8_t{});
    case ElementType::kUI8:
      return read(uint8_t{});
    case ElementType::kI16:
      return read(int16_t{});
    case ElementType::kUI16:
      return read(uint16_t{});
    case ElementType::kI32:
      return read(int32_t{});
    case ElementType::kUI32:
      return read(uint32_t{});
    default:
      return read(int64_t{});
  }
}

// Pulls what every member sends to local member `local`. Offsets and sizes are data: those that
// reach outside an array are cut to it, as XLA's slices are.
void Ragged(const Work& work, int local) {
  const collective::Spec& spec = work.site->spec;
  const Shaped& input = spec.operands[0];
  const Shaped& output = spec.operands[1];
  const ElementType index = spec.operands[2].element;
  const int64_t n = static_cast<int64_t>(work.group->members.size());
  const int64_t updates = spec.operands[2].dims[0] / n;  // per pair of devices
  int64_t row = ElementBytes(input.element);
  for (size_t d = 1; d < input.dims.size(); ++d) row *= input.dims[d];
  const int me = work.group->local[local];
  Copy(work.result(local, 0), work.operand(me, 1), output.num_bytes());
  for (int source = 0; source < n; ++source) {
    for (int64_t u = 0; u < updates; ++u) {
      const int64_t at = me * updates + u;
      const int64_t from = Index(index, work.operand(source, 2), at);
      const int64_t size = Index(index, work.operand(source, 3), at);
      const int64_t to = Index(index, work.operand(source, 4), at);
      if (from < 0 || to < 0 || from >= input.dims[0] || to >= output.dims[0]) continue;
      const int64_t rows = std::min({size, input.dims[0] - from, output.dims[0] - to});
      if (rows <= 0) continue;
      std::memcpy(work.result(local, 0) + to * row, work.operand(source, 0) + from * row,
                  rows * row);
    }
  }
}

// The pieces of each kind, and piece number `piece` of them.
int AllPieces(const Work& work) {
  const collective::Spec& spec = work.site->spec;
  const int local = work.group->num_local();
  int64_t pieces = 0;
  switch (spec.kind) {
    case Kind::kAllReduce:
      for (const Shaped& operand : spec.operands) pieces += PiecesOf(operand);
      return static_cast<int>(pieces);
    case Kind::kReduceScatter:
      for (const Shaped& result : spec.results) pieces += PiecesOf(result);
      return static_cast<int>(pieces) * local;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return local * static_cast<int>(spec.operands.size() * work.group->members.size());
    case Kind::kCollectivePermute:
    case Kind::kCollectiveBroadcast:
    case Kind::kRaggedAllToAll:
      return local;
  }
  return 0;
}

void RunOne(const Work& work, int piece) {
  const collective::Spec& spec = work.site->spec;
  const int local_members = work.group->num_local();
  switch (spec.kind) {
    case Kind::kAllReduce: {
      int i = 0;
      for (; piece >= PiecesOf(spec.operands[i]); ++i) {
        piece -= static_cast<int>(PiecesOf(spec.operands[i]));
      }
      return AllReduceRange(work, i, PieceRange(spec.operands[i], piece));
    }
    case Kind::kReduceScatter: {
      const int local = piece % local_members;
      piece /= local_members;
      int i = 0;
      for (; piece >= PiecesOf(spec.results[i]); ++i) {
        piece -= static_cast<int>(PiecesOf(spec.results[i]));
      }
      return ReduceScatterRange(work, local, i, PieceRange(spec.results[i], piece));
    }
    case Kind::kAllGather:
    case Kind::kAllToAll: {
      const int members = static_cast<int>(work.group->members.size());
      const int local = piece % local_members;
      piece /= local_members;
      return CopyFrom(work, local, piece / members, piece % members);
    }
    case Kind::kCollectivePermute:
      return Permute(work, piece);
    case Kind::kCollectiveBroadcast:
      return Broadcast(work, piece);
    case Kind::kRaggedAllToAll:
      return Ragged(work, piece);
  }
}

}  // namespace

int NumPieces(const Work& work) {
  const int64_t bytes =
      std::max(work.site->operand_bytes, work.site->result_bytes) * work.group->num_local();
  return bytes <= kSplitBytes ? 1 : AllPieces(work);
}

void RunPiece(const Work& work, int piece, int num_pieces) {
  if (num_pieces > 1) return RunOne(work, piece);
  for (int i = 0, n = AllPieces(work); i < n; ++i) RunOne(work, i);
}

void ReduceRange(const Work& work, int i, int64_t first, int64_t count, char* destination) {
  const int64_t offset = first * ElementBytes(work.site->spec.operands[i].element);
  const int n = static_cast<int>(work.group->members.size());
  Sources sources(n);
  for (int s = 0; s < n; ++s) sources[s] = work.operand(work.group->sum_order[s], i) + offset;
  work.site->reduce[i](sources, count, destination);
}

void RunAlone(const SitePlan& site, const void* const* operands, void* const* results) {
  for (size_t i = 0; i < site.spec.results.size(); ++i) {
    const int64_t bytes = site.spec.results[i].num_bytes();
    if (bytes == 0) continue;
    if (site.spec.kind == Kind::kAllReduce) {
      std::memcpy(results[i], operands[i], bytes);
    } else {
      std::memset(results[i], 0, bytes);
    }
  }
}

}  // namespace shardway::comm
