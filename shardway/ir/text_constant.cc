#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "shardway/ir/scalar.h"
#include "shardway/ir/text_parts.h"

namespace shardway::ir::text {
namespace {

// Up to this many elements are written one by one, for people; more are written as bytes in hex.
constexpr int64_t kMaxListed = 16;

void AppendHexByte(std::string& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

void AppendBits(std::string& out, std::string_view bytes) {
  out += "0x";
  for (size_t i = bytes.size(); i-- > 0;) AppendHexByte(out, static_cast<unsigned char>(bytes[i]));
}

// MLIR asks for a point in every decimal: "1e-05" is "1.0e-05".
void AppendDecimal(std::string& out, std::string_view digits) {
  const size_t e = digits.find('e');
  const std::string_view mantissa = digits.substr(0, e);
  out += mantissa;
  if (mantissa.find('.') == std::string_view::npos) out += ".0";
  if (e != std::string_view::npos) out += digits.substr(e);
}

void AppendElement(std::string& out, ElementType type, std::string_view bytes) {
  if (type == ElementType::kI1) {
    out += (bytes[0] & 1) != 0 ? "true" : "false";
  } else if (IsComplex(type)) {
    const ElementType part = RealOf(type);
    out += '(';
    AppendFloat(out, part, bytes.substr(0, bytes.size() / 2));
    out += ',';
    AppendFloat(out, part, bytes.substr(bytes.size() / 2));
    out += ')';
  } else if (IsFloat(type)) {
    AppendFloat(out, type, bytes);
  } else if (type == ElementType::kUI64) {
    absl::StrAppend(&out, static_cast<uint64_t>(IntFromElement(type, bytes)));
  } else {
    absl::StrAppend(&out, IntFromElement(type, bytes));
  }
}

// The elements from `dim` inwards as nested lists; advances `next` over the bytes.
void AppendNested(std::string& out, const Type& type, int dim, std::string_view& next) {
  if (dim == type.rank()) {
    const int width = ElementBytes(type.element);
    AppendElement(out, type.element, next.substr(0, width));
    next.remove_prefix(width);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < type.dim(dim); ++i) {
    if (i > 0) out += ", ";
    AppendNested(out, type, dim + 1, next);
  }
  out += ']';
}

}  // namespace

void AppendFloat(std::string& out, ElementType type, std::string_view bytes) {
  const double value = DoubleFromElement(type, bytes);
  if (!std::isfinite(value) || (type != ElementType::kF32 && type != ElementType::kF64)) {
    AppendBits(out, bytes);
    return;
  }
  char digits[40];
  const auto end = type == ElementType::kF32
                       ? std::to_chars(digits, digits + 39, static_cast<float>(value))
                       : std::to_chars(digits, digits + 39, value);
  *end.ptr = '\0';
  // The parser reads a double and rounds that: a decimal near the middle of two floats could slip.
  const double parsed = std::strtod(digits, nullptr);
  const bool same = type == ElementType::kF32
                        ? static_cast<float>(parsed) == static_cast<float>(value)
                        : parsed == value;
  if (same) {
    AppendDecimal(out, std::string_view(digits, end.ptr - digits));
  } else {
    AppendBits(out, bytes);
  }
}

void AppendConstant(std::string& out, const Constant& constant, size_t max_bytes) {
  const Type& type = constant.type;
  out += "dense<";
  if (type.num_elements() == 0 && !constant.splat) {
    // Nothing between the brackets, whatever the shape.
  } else if (constant.splat) {
    AppendElement(out, type.element, constant.bytes);
  } else if (constant.bytes.size() > max_bytes) {
    out += "…";
  } else if (type.num_elements() <= kMaxListed || type.element == ElementType::kI1) {
    // MLIR's own bytes of booleans differ between versions, so booleans are always listed.
    std::string_view next = constant.bytes;
    AppendNested(out, type, 0, next);
  } else {
    out += "\"0x";
    out.reserve(out.size() + 2 * constant.bytes.size() + 64);
    for (char byte : constant.bytes) AppendHexByte(out, static_cast<unsigned char>(byte));
    out += '"';
  }
  out += "> : ";
  type.AppendTo(out);
}

void AppendDenseInts(std::string& out, std::string_view shape, const std::vector<int64_t>& values,
                     size_t row) {
  out += "dense<";
  if (!values.empty()) {
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ", ";
      if (row > 1 && i % row == 0) out += '[';
      absl::StrAppend(&out, values[i]);
      if (row > 1 && i % row == row - 1) out += ']';
    }
    out += ']';
  }
  out += "> : tensor<";
  out += shape;
  out += '>';
}

}  // namespace shardway::ir::text
