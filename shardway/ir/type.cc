#include "shardway/ir/type.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shardway::ir {
namespace {

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// "4x?xf32", and the bounds of dynamic dimensions.
void AppendShape(std::string& out, const Type& type) {
  for (int64_t d : type.dims) {
    if (d == kDynamic) {
      out += "?x";
    } else {
      absl::StrAppend(&out, d, "x");
    }
  }
  out += ElementTypeName(type.element);
  if (type.bounds == nullptr) return;
  out += ", #stablehlo.bounds<";
  for (size_t i = 0; i < type.bounds->size(); ++i) {
    if (i > 0) out += ", ";
    const int64_t bound = (*type.bounds)[i];
    out += bound == kDynamic ? "?" : absl::StrCat(bound);
  }
  out += ">";
}

void AppendList(std::string& out, const std::vector<Type>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i > 0) out += ", ";
    types[i].AppendTo(out);
  }
}

}  // namespace

Type Type::Tensor(ElementType element, absl::Span<const int64_t> dims) {
  Type type;
  type.element = element;
  type.dims.assign(dims.begin(), dims.end());
  return type;
}

Type Type::Token() {
  Type type;
  type.kind = Kind::kToken;
  return type;
}

Type Type::Tuple(std::vector<Type> elements) {
  Type type;
  type.kind = Kind::kTuple;
  type.tuple = std::make_shared<const std::vector<Type>>(std::move(elements));
  return type;
}

Type Type::Future(std::vector<Type> elements) {
  Type type = Tuple(std::move(elements));
  type.kind = Kind::kFuture;
  return type;
}

Type Type::Buffer(ElementType element, absl::Span<const int64_t> dims) {
  Type type = Tensor(element, dims);
  type.kind = Kind::kBuffer;
  return type;
}

bool Type::is_static() const {
  for (int64_t d : dims) {
    if (d == kDynamic) return false;
  }
  return true;
}

int64_t Type::num_elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n = SaturatingMultiply(n, d);
  return n;
}

int64_t Type::num_bytes() const {
  switch (kind) {
    case Kind::kTensor:
    case Kind::kBuffer:
      return SaturatingMultiply(num_elements(), ElementBytes(element));
    case Kind::kTuple:
    case Kind::kFuture: {
      int64_t n = 0;
      for (const Type& t : *tuple) {
        if (__builtin_add_overflow(n, t.num_bytes(), &n)) return INT64_MAX;
      }
      return n;
    }
    case Kind::kToken:
      break;
  }
  return 0;
}

void Type::AppendTo(std::string& out) const {
  switch (kind) {
    case Kind::kToken:
      out += "!stablehlo.token";
      return;
    case Kind::kTensor:
      out += "tensor<";
      AppendShape(out, *this);
      break;
    case Kind::kBuffer:
      out += "memref<";
      AppendShape(out, *this);
      break;
    case Kind::kTuple:
      out += "tuple<";
      AppendList(out, *tuple);
      break;
    case Kind::kFuture:
      out += "!stablehlo.future<";
      AppendList(out, *tuple);
      break;
  }
  out += ">";
}

std::string Type::ToString() const {
  std::string out;
  AppendTo(out);
  return out;
}

bool operator==(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.element != b.element || a.dims != b.dims) return false;
  if ((a.bounds == nullptr) != (b.bounds == nullptr)) return false;
  if (a.bounds != nullptr && a.bounds != b.bounds && *a.bounds != *b.bounds) return false;
  if ((a.tuple == nullptr) != (b.tuple == nullptr)) return false;
  return a.tuple == nullptr || a.tuple == b.tuple || *a.tuple == *b.tuple;
}

}  // namespace shardway::ir
