#include "shardway/spmd/part_values.h"

#include <algorithm>
#include <cstdlib>

namespace shardway::spmd {
namespace {

const ir::Type& I32() {
  static const auto& type = *new ir::Type(ir::Type::Scalar(ElementType::kI32));
  return type;
}

struct Line {
  int64_t slope = 0, offset = 0, min = 0, max = 0;
  int64_t At(int64_t part) const { return std::clamp(slope * part + offset, min, max); }
};

// clamp(min, slope · part + offset, max) through all numbers, if there is one. Clamping only
// flattens, so the steepest step between neighbours has the slope.
std::optional<Line> FindLine(const PartNumbers& numbers) {
  Line line;
  bool any = false;
  std::optional<size_t> last;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    line.min = any ? std::min(line.min, *numbers[i]) : *numbers[i];
    line.max = any ? std::max(line.max, *numbers[i]) : *numbers[i];
    if (last) {
      const int64_t slope = (*numbers[i] - *numbers[*last]) / static_cast<int64_t>(i - *last);
      if (std::abs(slope) > std::abs(line.slope)) {
        line.slope = slope;
        line.offset = *numbers[i] - slope * static_cast<int64_t>(i);
      }
    }
    last = i;
    any = true;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] && line.At(static_cast<int64_t>(i)) != *numbers[i]) return std::nullopt;
  }
  return line;
}

}  // namespace

std::optional<int64_t> SameForAll(const PartNumbers& numbers) {
  std::optional<int64_t> found;
  for (const auto& number : numbers) {
    if (!number) continue;
    if (found && *found != *number) return std::nullopt;
    found = number;
  }
  return found.value_or(0);
}

ir::Value* NumberOfPart(Emitter& e, const AxisList& axes, const PartNumbers& numbers) {
  ir::Builder& b = e.b();
  if (auto same = SameForAll(numbers)) return b.SplatInt(I32(), *same);
  ir::Value* part = e.Coordinate(axes);
  if (const auto line = FindLine(numbers)) {
    ir::Value* x = part;
    if (line->slope != 1) x = b.Binary(ir::OpKind::kMultiply, x, b.SplatInt(I32(), line->slope));
    if (line->offset != 0) x = b.Binary(ir::OpKind::kAdd, x, b.SplatInt(I32(), line->offset));
    const auto last = static_cast<int64_t>(numbers.size()) - 1;
    const int64_t ends[] = {line->offset, line->slope * last + line->offset};
    if (std::min(ends[0], ends[1]) >= line->min && std::max(ends[0], ends[1]) <= line->max) {
      return x;
    }
    return b.Clamp(b.SplatInt(I32(), line->min), x, b.SplatInt(I32(), line->max));
  }
  std::vector<int64_t> table;
  for (const auto& number : numbers) table.push_back(number.value_or(0));
  const int64_t one[] = {1};
  return b.Reshape(b.DynamicSlice(b.IntVector(ElementType::kI32, table), {part}, one), {});
}

Emitter::Pairs PairsOfParts(const std::vector<int64_t>& to) {
  Emitter::Pairs pairs;
  for (size_t p = 0; p < to.size(); ++p) {
    if (to[p] >= 0) pairs.emplace_back(p, to[p]);
  }
  return pairs;
}

}  // namespace shardway::spmd
