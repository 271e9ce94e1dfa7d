// rng_bit_generator: a part makes its own numbers, the same as one device makes, from the state
// with its counter (the second of two 64-bit words; the first is the key) moved to where the part
// begins. What a counter gives:
//
//   Philox, the default       4 elements one after the other, 2 where they have 64 bits
//   ThreeFry, 64 bits         one element, the second of its two words the upper one
//   ThreeFry, fewer           two elements, one word for each: neighbours along the first dimension
//                             of even size (of none, the first, as if it were one longer)
//
// Narrow elements are the lower bits of a word. Only the major dimension is split: what a part has
// is one stretch of counters. Everything else is made whole on every device, and sliced.
#include <algorithm>
#include <numeric>

#include "shardway/base/status_macros.h"
#include "shardway/spmd/reshard.h"
#include "shardway/spmd/room.h"

namespace shardway::spmd {
namespace {

using ir::OpKind;

enum class Algorithm { kOther, kPhilox, kThreeFry };

Algorithm AlgorithmOf(const ir::Op& op) {
  const std::string_view name = op.String("rng_algorithm");
  if (name == "THREE_FRY") return Algorithm::kThreeFry;
  return name == "PHILOX" || name == "DEFAULT" ? Algorithm::kPhilox : Algorithm::kOther;
}

int64_t Product(absl::Span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// How counters make up an array of `rows` along its major dimension.
struct Counters {
  int major = -1;     // the dimension that can be split; -1: none
  int64_t row = 1;    // elements of one index along it
  int64_t each = 1;   // elements of a counter that follow each other
  int64_t total = 0;  // counters of the whole array
  // ThreeFry's pairs that do not follow each other: the array seen as [.., pairs, 2, after], and
  // whether `pairs` is made of the major dimension.
  bool apart = false;
  bool major_pairs = false;
  int64_t pairs = 1, after = 1;
};

Counters CountersOf(const ir::Op& op) {
  Counters c;
  const ir::Type& type = op.result(1)->type;
  const Algorithm algorithm = AlgorithmOf(op);
  const bool is_unsigned = type.element == ElementType::kUI8 ||
                           type.element == ElementType::kUI16 ||
                           type.element == ElementType::kUI32 || type.element == ElementType::kUI64;
  const ir::Type& state = op.operand(0)->type;
  if (algorithm == Algorithm::kOther || !is_unsigned || type.num_elements() == 0 ||
      state.element != ElementType::kUI64 || state.num_elements() != 2) {
    return c;
  }
  int major = 0;
  while (major < type.rank() && type.dims[major] == 1) ++major;
  if (major == type.rank()) return c;
  const absl::Span<const int64_t> dims = type.dims;
  const bool wide = type.element == ElementType::kUI64;
  const int64_t size = type.num_elements();
  c.row = Product(dims.subspan(major + 1));
  if (algorithm == Algorithm::kPhilox || wide) {
    c.each = algorithm == Algorithm::kThreeFry ? 1 : wide ? 2 : 4;
    c.total = sharding::CeilDiv(size, c.each);
    c.major = major;
    return c;
  }
  int even = 0;
  while (even < type.rank() && dims[even] % 2 != 0) ++even;
  if (even == type.rank()) {
    // None is: the longest is made so. Which one of several, nobody says.
    const auto longest = std::max_element(dims.begin(), dims.end());
    if (longest - dims.begin() != major || std::count(dims.begin(), dims.end(), *longest) > 1)
      return c;
    even = major;
  }
  if (even < major) return c;
  c.after = Product(dims.subspan(even + 1));
  c.pairs = sharding::CeilDiv(dims[even], 2);
  c.each = 2;
  c.total = Product(dims.subspan(0, even)) * c.pairs * c.after;
  c.apart = c.after > 1;
  c.major_pairs = even == major;
  c.major = major;
  return c;
}

class Part {
 public:
  Part(LocalOp& local, const Counters& counters)
      : local_(local),
        b_(local.e.b()),
        c_(counters),
        type_(local.result_types[1]),
        tile_(type_.dims[c_.major]) {}

  ir::Value* Bits() {
    if (!c_.apart) return Linear();
    return c_.major_pairs ? MajorPairs() : InnerPairs();
  }

 private:
  ir::Value* U64(int64_t n) { return b_.SplatInt(ir::Type::Scalar(ElementType::kUI64), n); }

  // The first row of this part times `per_row`, divided by `by`.
  ir::Value* Begin(int64_t per_row, int64_t by) {
    ir::Value* part = b_.Convert(local_.e.Coordinate(local_.result_shardings[1].dims[c_.major]),
                                 ElementType::kUI64);
    ir::Value* first = b_.Binary(OpKind::kMultiply, part, U64(tile_ * per_row));
    return by == 1 ? first : b_.Binary(OpKind::kDivide, first, U64(by));
  }

  // An array of `count` elements from the counter `begin` on.
  ir::Value* Generate(ir::Value* begin, ElementType element, int64_t count) {
    ir::Value* state = local_.operands[0];
    const int64_t second[] = {0, 1};
    ir::Value* moved = b_.Binary(OpKind::kMultiply, b_.IntVector(ElementType::kUI64, second),
                                 b_.BroadcastInDim(begin, state->type.dims, {}));
    moved = b_.Binary(OpKind::kAdd, state, moved);
    ir::AttrDict attributes;
    // What the default is, is known: a back end where it is another must not count otherwise.
    const char* name = AlgorithmOf(local_.op) == Algorithm::kThreeFry ? "THREE_FRY" : "PHILOX";
    ir::Set(attributes, "rng_algorithm", ir::EnumAttr{.kind = "rng_algorithm", .value = name});
    const ir::Type types[] = {state->type, ir::Type::Tensor(element, {count})};
    return b_.Create(OpKind::kRngBitGenerator, {&moved, 1}, types, std::move(attributes))
        ->result(1);
  }

  // Elements (or rows) from a scalar remainder on.
  ir::Value* From(ir::Value* x, ir::Value* start, int64_t count) {
    std::vector<ir::Value*> starts(x->type.rank(), U64(0));
    starts[0] = start;
    std::vector<int64_t> sizes(x->type.dims.begin(), x->type.dims.end());
    sizes[0] = count;
    return b_.DynamicSlice(x, starts, sizes);
  }

  ir::Value* Linear() {
    const int64_t count = type_.num_elements();
    // Where parts begin in the middle of a counter, from its beginning on.
    const bool aligned = tile_ * c_.row % c_.each == 0;
    ir::Value* x =
        Generate(Begin(c_.row, c_.each), type_.element, aligned ? count : count + c_.each - 1);
    if (!aligned) {
      x = From(x, b_.Binary(OpKind::kRemainder, Begin(c_.row, 1), U64(c_.each)), count);
    }
    return b_.Reshape(x, type_.dims);
  }

  // Pairs of words from the counter `begin` on, as [outer, pairs, 2, after].
  ir::Value* Words(ir::Value* begin, int64_t outer, int64_t pairs) {
    ir::Value* x = Generate(begin, ElementType::kUI64, outer * pairs * c_.after);
    const ir::Type words = ir::Type::Tensor(ElementType::kUI32, {outer * pairs * c_.after, 2});
    x = b_.Create(OpKind::kBitcastConvert, {&x, 1}, {&words, 1})->result();
    const int64_t order[] = {0, 1, 3, 2};
    x = b_.Transpose(b_.Reshape(x, {outer, pairs, c_.after, 2}), order);
    return type_.element == ElementType::kUI32 ? x : b_.Convert(x, type_.element);
  }

  ir::Value* InnerPairs() {
    const int64_t outer = type_.num_elements() / (2 * c_.pairs * c_.after);
    return b_.Reshape(Words(Begin(c_.row / 2, 1), outer, c_.pairs), type_.dims);
  }

  ir::Value* MajorPairs() {
    const int64_t pairs = sharding::CeilDiv(tile_, 2);
    ir::Value* pair = b_.Binary(OpKind::kMultiply, Begin(1, 2), U64(c_.row));
    ir::Value* x = b_.Reshape(Words(pair, 1, pairs), {2 * pairs, c_.row});
    if (tile_ % 2 != 0) x = From(x, b_.Binary(OpKind::kRemainder, Begin(1, 1), U64(2)), tile_);
    return b_.Reshape(x, type_.dims);
  }

  LocalOp& local_;
  ir::Builder& b_;
  const Counters& c_;
  const ir::Type& type_;
  const int64_t tile_;
};

}  // namespace

OpRule RngBitGeneratorRule(const ir::Op& op) {
  OpRule rule = ReplicatedRule(op);
  const int major = CountersOf(op).major;
  if (major >= 0) rule.factors[rule.results[1][major][0]].kind = Factor::Kind::kPassThrough;
  return rule;
}

LocalResults EmitRngBitGenerator(LocalOp& local) {
  if (local.result_shardings[1].replicated()) return EmitAsIs(local);
  const Counters counters = CountersOf(local.op);
  const int64_t moved[] = {0, counters.total};
  ir::Builder& b = local.e.b();
  ir::Value* state =
      b.Binary(OpKind::kAdd, local.operands[0], b.IntVector(ElementType::kUI64, moved));
  return std::vector<ir::Value*>{state, Part(local, counters).Bits()};
}

}  // namespace shardway::spmd
