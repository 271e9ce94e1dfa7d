#include "shardway/ir/bytecode/pool.h"

#include <utility>

namespace shardway::ir::bytecode {
namespace {

// Expansion that any artifact may cause, and that each of its bytes allows on top.
constexpr uint64_t kBaseAllowance = 1 << 20;
constexpr uint64_t kAllowancePerByte = 4;
// What one entry may gather from others: no sane attribute has more parts.
constexpr uint64_t kMaxGathered = 1 << 22;

uint64_t ArtifactBytes(const Sections& sections) {
  uint64_t bytes = sections.ir.size();
  for (const Entry& e : sections.attributes) bytes += e.bytes.size() + 1;
  for (const Entry& e : sections.types) bytes += e.bytes.size() + 1;
  for (const std::string_view s : sections.strings) bytes += s.size() + 1;
  return bytes;
}

}  // namespace

Pool::Pool(const Sections* sections, std::shared_ptr<const void> owner, Module* module,
           ErrorSink* errors)
    : sections_(sections),
      owner_(std::move(owner)),
      module_(module),
      errors_(errors),
      attributes_(sections->attributes.size()),
      types_(sections->types.size()),
      allowance_(kBaseAllowance + kAllowancePerByte * ArtifactBytes(*sections)) {}

std::string_view Pool::String(ByteReader& reader) {
  const uint64_t index = reader.ReadVarInt();
  if (index >= sections_->strings.size()) {
    reader.Fail("a string index is out of range");
    return {};
  }
  const std::string_view text = sections_->strings[index];
  weight_ += text.size() / 16;
  return text;
}

template <typename T, typename Decode>
const T* Pool::Get(std::vector<Slot<T>>& slots, const std::vector<Entry>& entries, uint64_t index,
                   Decode decode) {
  if (!ok()) return nullptr;
  if (index >= slots.size()) {
    errors_->Invalid("an attribute or type index is out of range");
    return nullptr;
  }
  Slot<T>& slot = slots[index];
  if (slot.state == State::kDone) return Gather(slot.weight) ? &slot.value : nullptr;
  const Entry& entry = entries[index];
  if (slot.state == State::kBusy) {
    errors_->Invalid("an attribute or type contains itself", entry.offset);
    return nullptr;
  }
  if (depth_ >= kMaxDepth) {
    errors_->Invalid("attributes or types are nested too deeply", entry.offset);
    return nullptr;
  }
  slot.state = State::kBusy;
  const uint64_t outer_weight = std::exchange(weight_, 0);
  ++depth_;
  ByteReader reader(entry.bytes, entry.offset, errors_);
  slot.value = decode(reader, entry);
  --depth_;
  if (ok() && entry.is_encoded && !reader.empty()) reader.Fail("an entry has bytes left over");
  slot.weight = weight_ + 1 + entry.bytes.size() / 16;
  weight_ = outer_weight;
  slot.state = State::kDone;
  return Charge(slot.weight) && Gather(slot.weight) ? &slot.value : nullptr;
}

bool Pool::Gather(uint64_t weight) {
  weight_ += weight;
  if (depth_ > 0 && weight_ > kMaxGathered) {
    errors_->Invalid("an attribute or type expands to too many parts");
  }
  if (depth_ == 0) weight_ = 0;
  return ok();
}

const DecodedAttribute* Pool::GetAttribute(uint64_t index) {
  return Get(attributes_, sections_->attributes, index,
             [this](ByteReader& reader, const Entry& entry) -> DecodedAttribute {
               if (!entry.is_encoded) return DecodeTextAttribute(reader.ReadNullTerminated());
               if (entry.dialect == "vhlo") return DecodeVhloAttribute(reader, *this);
               if (entry.dialect == "sdy") return DecodeSdyAttribute(reader, *this);
               if (entry.dialect == "builtin") return DecodeBuiltinAttribute(reader, *this);
               errors_->Unimplemented(
                   absl::StrCat("an attribute of the dialect '", Str(entry.dialect), "'"));
               return {};
             });
}

const DecodedType* Pool::GetType(uint64_t index) {
  return Get(
      types_, sections_->types, index,
      [this](ByteReader& reader, const Entry& entry) -> DecodedType {
        if (!entry.is_encoded) return DecodeTextType(reader.ReadNullTerminated());
        if (entry.dialect == "vhlo") return DecodeVhloType(reader, *this);
        if (entry.dialect == "builtin") return DecodeBuiltinType(reader, *this);
        if (entry.dialect == "stablehlo") return DecodeStablehloType(reader);
        errors_->Unimplemented(absl::StrCat("a type of the dialect '", Str(entry.dialect), "'"));
        return {};
      });
}

Type Pool::ValueType(uint64_t index, const ByteReader& reader) {
  const DecodedType* decoded = GetType(index);
  if (decoded == nullptr) return {};
  if (const Type* type = std::get_if<Type>(decoded)) {
    Charge(type->dims.size() / 4);  // each value has a copy
    return *type;
  }
  if (const auto* unsupported = std::get_if<UnsupportedType>(decoded)) {
    errors_->Unimplemented(unsupported->name);
  } else if (std::get_if<IndexType>(decoded) != nullptr) {
    errors_->Unimplemented("the type index");
  } else {
    errors_->Invalid("a value has a type that values can't have", reader.offset());
  }
  return {};
}

ElementType Pool::ReadElementType(ByteReader& reader) {
  const DecodedType* decoded = GetType(reader.ReadVarInt());
  if (decoded == nullptr) return ElementType::kInvalid;
  if (const ElementType* element = std::get_if<ElementType>(decoded)) return *element;
  if (std::get_if<IndexType>(decoded) != nullptr) return ElementType::kI64;
  if (const auto* unsupported = std::get_if<UnsupportedType>(decoded)) {
    errors_->Unimplemented(unsupported->name);
  } else {
    reader.Fail("a type is no element type");
  }
  return ElementType::kInvalid;
}

const Location* Pool::ReadLocation(ByteReader& reader) {
  const DecodedAttribute* decoded = GetAttribute(reader.ReadVarInt());
  const auto* location = decoded == nullptr ? nullptr : std::get_if<const Location*>(decoded);
  if (location == nullptr) {
    reader.Fail("a location is none");
    return module_->unknown_location();
  }
  return *location;
}

bool Pool::Charge(uint64_t weight) {
  if (weight > allowance_) {
    errors_->Invalid("it expands to far more than its size");
    return false;
  }
  allowance_ -= weight;
  return true;
}

void Pool::ChargeUse(uint64_t index) {
  if (index < attributes_.size()) Charge(attributes_[index].weight);
}

}  // namespace shardway::ir::bytecode
