// A program's specifications as bytes:
//
//   list   := "SWC1" count spec*
//   spec   := site kind reduction shapes(operands) shapes(results) dim0 dim1
//             numbers(mesh) numbers(axes) count numbers(list)* count (source target)*
//             work_after_us: 8 bytes, IEEE double, little endian
//             location: count bytes
//   shapes := count (element numbers(dims))*
//   numbers := count number*
//
// Every number and count is a varint: 7 bits a byte, least significant first.
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"

namespace shardway::collective {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::string_view kMagic = "SWC1";

class Writer {
 public:
  explicit Writer(std::string* out) : out_(*out) {}

  void Number(int64_t value) {
    uint64_t rest = static_cast<uint64_t>(value);
    while (rest >= 0x80) {
      out_.push_back(static_cast<char>(rest | 0x80));
      rest >>= 7;
    }
    out_.push_back(static_cast<char>(rest));
  }
  template <typename T>
  void Numbers(const std::vector<T>& values) {
    Number(values.size());
    for (T value : values) Number(value);
  }
  void Shapes(const std::vector<Shaped>& shapes) {
    Number(shapes.size());
    for (const Shaped& shape : shapes) {
      Number(static_cast<int64_t>(shape.element));
      Numbers(shape.dims);
    }
  }
  void Double(double value) { out_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Text(std::string_view text) {
    Number(text.size());
    out_.append(text);
  }

 private:
  std::string& out_;
};

// Reads what Writer wrote. After the first malformed field every read gives zeros and ok() is
// false. A count never exceeds the bytes left, so that no bytes make us allocate much more than
// they are.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

  int64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !in_.empty(); shift += 7) {
      const uint8_t byte = in_.front();
      in_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return static_cast<int64_t>(value);
    }
    ok_ = false;
    return 0;
  }
  int64_t NumberBelow(int64_t limit) {
    const int64_t value = Number();
    if (value >= 0 && value < limit) return value;
    ok_ = false;
    return 0;
  }
  size_t Count() {
    const int64_t value = NumberBelow(static_cast<int64_t>(in_.size()) + 1);
    // Its own bytes may have been the last ones.
    if (value > static_cast<int64_t>(in_.size())) ok_ = false;
    return ok_ ? value : 0;
  }
  template <typename T>
  void Numbers(std::vector<T>* values) {
    const size_t count = Count();
    values->reserve(count);
    for (size_t i = 0; i < count && ok_; ++i) {
      const int64_t value = Number();
      if (static_cast<T>(value) != value) ok_ = false;
      values->push_back(static_cast<T>(value));
    }
  }
  void Shapes(std::vector<Shaped>* shapes) {
    const size_t count = Count();
    for (size_t i = 0; i < count && ok_; ++i) {
      Shaped& shape = shapes->emplace_back();
      shape.element = static_cast<ElementType>(NumberBelow(kNumElementTypes));
      Numbers(&shape.dims);
    }
  }
  double Double() {
    double value = 0;
    if (in_.size() < sizeof(value)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, in_.data(), sizeof(value));
    in_.remove_prefix(sizeof(value));
    return value;
  }
  std::string Text() {
    const size_t size = Count();
    std::string text(in_.substr(0, size));
    in_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view in_;
  bool ok_ = true;
};

void WriteSpec(const Spec& spec, Writer& out) {
  out.Number(spec.site);
  out.Number(static_cast<int64_t>(spec.kind));
  out.Number(static_cast<int64_t>(spec.reduction));
  out.Shapes(spec.operands);
  out.Shapes(spec.results);
  out.Number(spec.dim0);
  out.Number(spec.dim1);
  out.Numbers(spec.groups.mesh);
  out.Numbers(spec.groups.axes);
  out.Number(spec.groups.lists.size());
  for (const std::vector<int64_t>& list : spec.groups.lists) out.Numbers(list);
  out.Number(spec.pairs.size());
  for (auto [source, target] : spec.pairs) {
    out.Number(source);
    out.Number(target);
  }
  out.Double(spec.work_after_us);
  out.Text(spec.location);
}

Spec ReadSpec(Reader& in) {
  Spec spec;
  spec.site = static_cast<int32_t>(in.NumberBelow(int64_t{1} << 31));
  spec.kind = static_cast<Kind>(in.NumberBelow(static_cast<int>(Kind::kRaggedAllToAll) + 1));
  spec.reduction = static_cast<Reduction>(in.NumberBelow(static_cast<int>(Reduction::kXor) + 1));
  in.Shapes(&spec.operands);
  in.Shapes(&spec.results);
  spec.dim0 = in.Number();
  spec.dim1 = in.Number();
  in.Numbers(&spec.groups.mesh);
  in.Numbers(&spec.groups.axes);
  const size_t lists = in.Count();
  for (size_t i = 0; i < lists && in.ok(); ++i) in.Numbers(&spec.groups.lists.emplace_back());
  const size_t pairs = in.Count();
  for (size_t i = 0; i < pairs && in.ok(); ++i) {
    const int64_t source = in.Number();
    spec.pairs.emplace_back(source, in.Number());
  }
  spec.work_after_us = in.Double();
  spec.location = in.Text();
  return spec;
}

}  // namespace

std::string Serialize(const std::vector<Spec>& specs) {
  std::string bytes(kMagic);
  Writer out(&bytes);
  out.Number(specs.size());
  for (const Spec& spec : specs) WriteSpec(spec, out);
  return bytes;
}

absl::StatusOr<std::vector<Spec>> Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return absl::InvalidArgumentError(absl::StrCat("a list of collectives of ", bytes.size(),
                                                   " bytes does not begin with 'SWC1'"));
  }
  Reader in(bytes.substr(kMagic.size()));
  const size_t count = in.Count();
  std::vector<Spec> specs;
  for (size_t i = 0; i < count; ++i) {
    Spec spec = ReadSpec(in);
    if (!in.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a list of collectives is cut off or malformed in entry ", i, " of ", count));
    }
    if (spec.site != static_cast<int32_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", i, " of a list of collectives has site ", spec.site));
    }
    SHARDWAY_RETURN_IF_ERROR(Validate(spec));
    specs.push_back(std::move(spec));
  }
  if (!in.ok() || !in.at_end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a list of ", count, " collectives has stray bytes at its end"));
  }
  return specs;
}

}  // namespace shardway::collective
