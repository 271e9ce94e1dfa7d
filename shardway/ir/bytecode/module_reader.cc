#include "shardway/ir/bytecode/module_reader.h"

#include <tuple>
#include <utility>

#include "shardway/ir/bytecode/normalise.h"

namespace shardway::ir::bytecode {
namespace {

enum Mask : uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseListOrders = 32,
  kHasProperties = 64,
};

std::string FullName(const OpName& name) {
  return absl::StrCat(std::string(name.dialect), ".", std::string(name.name));
}

const AttrDict& DictOf(const Attribute& attribute) {
  static const auto* const empty = new AttrDict;
  const auto* dict = attribute.get_if<std::shared_ptr<const AttrDict>>();
  return dict == nullptr ? *empty : **dict;
}

std::string StringOf(const AttrDict& dict, std::string_view name) {
  const Attribute* attribute = Find(dict, name);
  const auto* text = attribute == nullptr ? nullptr : attribute->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

// Moves the array of dictionaries under `name` out of `attributes`: one per argument or result.
bool TakeDicts(AttrDict& attributes, std::string_view name, size_t count,
               std::vector<AttrDict>& dicts) {
  dicts.resize(count);
  const Attribute* attribute = Find(attributes, name);
  if (attribute == nullptr) return true;
  const auto* array = attribute->get_if<std::shared_ptr<const AttrArray>>();
  if (array == nullptr || (!(*array)->empty() && (*array)->size() != count)) return false;
  for (size_t i = 0; i < (*array)->size(); ++i) dicts[i] = DictOf((**array)[i]);
  Erase(attributes, name);
  return true;
}

}  // namespace

ModuleReader::ModuleReader(const Sections* sections, Pool* pool, Module* module, ErrorSink* errors)
    : sections_(sections),
      pool_(pool),
      module_(module),
      errors_(errors),
      values_left_(sections->ir.size()) {
  specs_.reserve(sections->op_names.size());
  for (const OpName& name : sections->op_names) specs_.push_back(FindOp(name.dialect, name.name));
}

void ModuleReader::Read() {
  ByteReader reader(sections_->ir, sections_->ir_offset, errors_);
  Scope scope;
  size_t next = 0;
  ReadBlock(reader, scope, nullptr, next, 0,
            [this](ByteReader& r, Scope& s, size_t&) { ReadModuleOp(r, s); });
}

void ModuleReader::ReadModuleOp(ByteReader& reader, Scope& scope) {
  RawOp op = ReadRawOp(reader, scope);
  if (!errors_->ok()) return;
  if (op.spec->role != Role::kModule || op.num_regions != 1 || !op.result_types.empty()) {
    return reader.Fail("the outermost operator is no module");
  }
  module_->name = StringOf(op.attributes, "sym_name");
  Erase(op.attributes, "sym_name");
  Erase(op.attributes, "sym_visibility");
  module_->attributes = std::move(op.attributes);
  ReadRegions(reader, scope, op, [this](ByteReader& r, Scope& s) {
    ReadRegion(r, s, nullptr, [this](ByteReader& r2, Scope& s2, size_t&) {
      RawOp inner = ReadRawOp(r2, s2);
      if (!errors_->ok()) return;
      if (inner.spec->role == Role::kFunction) {
        ReadFunction(r2, s2, std::move(inner));
      } else if (inner.spec->role == Role::kMesh) {
        ReadMesh(inner);
      } else {
        errors_->Unimplemented(
            absl::StrCat("the operator ", inner.spec->name, " directly inside of a module"));
      }
    });
  });
}

void ModuleReader::ReadMesh(const RawOp& op) {
  const std::string name = StringOf(op.attributes, "sym_name");
  const Attribute* mesh = Find(op.attributes, "mesh");
  const auto* value = mesh == nullptr ? nullptr : mesh->get_if<SdyMesh>();
  if (name.empty() || value == nullptr || op.num_regions != 0) {
    return errors_->Invalid("a mesh has no name or no axes");
  }
  if (module_->FindMesh(name) != nullptr) {
    return errors_->Invalid(absl::StrCat("there are two meshes @", name));
  }
  module_->meshes.emplace_back(name, *value);
}

void ModuleReader::ReadFunction(ByteReader& reader, Scope& scope, RawOp op) {
  const std::string name = StringOf(op.attributes, "sym_name");
  const std::string visibility = StringOf(op.attributes, "sym_visibility");
  if (name.empty() || op.function_type == nullptr || op.num_regions != 1) {
    return reader.Fail("a function has no name, type or body");
  }
  if (module_->FindFunction(name) != nullptr) {
    return errors_->Invalid(absl::StrCat("there are two functions @", name));
  }
  Function* function = module_->AddFunction(name);
  function->is_public = visibility != "private" && visibility != "nested";
  function->location = op.location;
  function->result_types = op.function_type->results;
  if (!TakeDicts(op.attributes, "arg_attrs", op.function_type->inputs.size(),
                 function->arg_attrs) ||
      !TakeDicts(op.attributes, "res_attrs", function->result_types.size(),
                 function->result_attrs)) {
    return errors_->Invalid(
        absl::StrCat("the function @", name, " has attributes for another number of values"));
  }
  Erase(op.attributes, "sym_name");
  Erase(op.attributes, "sym_visibility");
  function->attributes = std::move(op.attributes);
  ReadRegions(reader, scope, op, [this, function](ByteReader& r, Scope& s) {
    ReadRegion(r, s, function->body, [this, function](ByteReader& r2, Scope& s2, size_t& next) {
      ReadOp(r2, s2, function->body, /*in_function=*/true, next);
    });
  });
  if (!errors_->ok()) return;
  const auto& inputs = op.function_type->inputs;
  const auto& arguments = function->body->arguments;
  bool same = inputs.size() == arguments.size();
  for (size_t i = 0; same && i < inputs.size(); ++i) same = inputs[i] == arguments[i]->type;
  if (!same) {
    errors_->Invalid(
        absl::StrCat("the body of the function @", name, " has other arguments than its type"));
  }
}

void ModuleReader::ReadOp(ByteReader& reader, Scope& scope, Region* region, bool in_function,
                          size_t& next) {
  RawOp raw = ReadRawOp(reader, scope);
  if (!errors_->ok() || !pool_->Charge(1)) return;
  const size_t end = end_;
  if (raw.spec->role == Role::kCast) {
    // A cast between the versioned and the plain form of a type: one and the same here.
    if (raw.operands.size() != raw.result_types.size() || raw.num_regions != 0) {
      return errors_->Unimplemented("an unrealized_conversion_cast of several values into one");
    }
    for (size_t i = 0; i < raw.operands.size(); ++i) {
      if (raw.operands[i]->type != raw.result_types[i]) {
        return reader.Fail("an unrealized_conversion_cast changes a type");
      }
      if (!Define(scope, next, end, raw.operands[i])) return;
    }
    return;
  }
  if (raw.spec->role != Role::kOperator && raw.spec->role != Role::kReturn) {
    return reader.Fail(absl::StrCat("the operator ", raw.spec->name, " stands inside a function"));
  }
  const bool returns = raw.spec->role == Role::kReturn && in_function;
  Op* op = module_->Append(region, returns ? OpKind::kFuncReturn : raw.spec->kind, raw.operands,
                           raw.result_types, raw.location);
  op->attributes = std::move(raw.attributes);
  FinishAttributes(*op);
  for (Value* result : op->results) {
    if (!Define(scope, next, end, result)) return;
  }
  ReadRegions(reader, scope, raw, [this, op](ByteReader& r, Scope& s) {
    Region* inner = module_->AddRegion(op);
    ReadRegion(r, s, inner, [this, inner](ByteReader& r2, Scope& s2, size_t& n) {
      ReadOp(r2, s2, inner, /*in_function=*/false, n);
    });
  });
}

bool ModuleReader::Define(Scope& scope, size_t& next, size_t end, Value* value) {
  if (next >= end) {
    errors_->Invalid("a region defines more values than it announced");
    return false;
  }
  scope[next++] = value;
  return true;
}

ModuleReader::RawOp ModuleReader::ReadRawOp(ByteReader& reader, Scope& scope) {
  RawOp op;
  const uint64_t name = reader.ReadVarInt();
  if (name >= specs_.size()) {
    reader.Fail("an operator's name is out of range");
    return op;
  }
  op.spec = specs_[name];
  if (op.spec == nullptr) {
    errors_->Unimplemented(absl::StrCat("the operator ", FullName(sections_->op_names[name])));
    return op;
  }
  const uint8_t mask = reader.ReadByte();
  op.location = pool_->ReadLocation(reader);
  if ((mask & kHasAttributes) != 0) ReadDictionary(reader, op);
  if ((mask & kHasProperties) != 0) ReadProperties(reader, op);
  if ((mask & kHasResults) != 0) {
    const size_t count = reader.ReadCount();
    op.result_types.reserve(count);
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      op.result_types.push_back(pool_->ReadType(reader));
    }
  }
  if ((mask & kHasOperands) != 0) {
    const size_t count = reader.ReadCount();
    op.operands.reserve(count);
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      const uint64_t index = reader.ReadVarInt();
      Value* value = index < scope.size() ? scope[index] : nullptr;
      if (value == nullptr) reader.Fail("an operand is used before it is defined");
      op.operands.push_back(value);
    }
  }
  if ((mask & kHasSuccessors) != 0) {
    errors_->Unimplemented("control flow between blocks");
  }
  if ((mask & kHasUseListOrders) != 0) SkipUseListOrder(reader, op.result_types.size());
  if ((mask & kHasRegions) != 0) {
    std::tie(op.num_regions, op.isolated) = reader.ReadVarIntWithFlag();
    op.num_regions = reader.CheckCount(op.num_regions);
  }
  return op;
}

void ModuleReader::AddAttribute(RawOp& op, const OpSpec::Attribute& attribute,
                                const DecodedAttribute* decoded) {
  if (decoded == nullptr) return;
  if (const auto* function = std::get_if<FunctionTypeRef>(decoded)) {
    if (op.spec->role != Role::kFunction) {
      return errors_->Invalid(absl::StrCat(op.spec->name, " has a function's type"));
    }
    op.function_type = function->type;
    return;
  }
  auto value = Normalise(*op.spec, attribute, *decoded, *pool_);
  if (value) Set(op.attributes, attribute.name, *std::move(value));
}

void ModuleReader::ReadProperties(ByteReader& reader, RawOp& op) {
  const uint64_t index = reader.ReadVarInt();
  if (index >= sections_->properties.size()) {
    return reader.Fail("an operator's properties are out of range");
  }
  ByteReader properties(sections_->properties[index], sections_->property_offsets[index], errors_);
  for (const OpSpec::Attribute& attribute : op.spec->attributes) {
    uint64_t at = 0;
    if (attribute.optional) {
      bool present = false;
      std::tie(at, present) = properties.ReadVarIntWithFlag();
      if (!present) continue;
    } else {
      at = properties.ReadVarInt();
    }
    const DecodedAttribute* decoded = pool_->GetAttribute(at);
    pool_->ChargeUse(at);
    AddAttribute(op, attribute, decoded);
    if (!errors_->ok()) return;
  }
  if (!properties.empty()) properties.Fail("an operator's properties have bytes left over");
}

void ModuleReader::ReadDictionary(ByteReader& reader, RawOp& op) {
  const uint64_t index = reader.ReadVarInt();
  const DecodedAttribute* decoded = pool_->GetAttribute(index);
  pool_->ChargeUse(index);
  if (decoded == nullptr) return;
  if (const auto* raw = std::get_if<std::shared_ptr<const RawDict>>(decoded)) {
    for (const auto& [name, value] : (*raw)->entries) AddEntry(op, name, *value);
    return;
  }
  const auto* attribute = std::get_if<Attribute>(decoded);
  const auto* dict =
      attribute == nullptr ? nullptr : attribute->get_if<std::shared_ptr<const AttrDict>>();
  if (dict == nullptr) return reader.Fail("an operator's attributes are no dictionary");
  for (const auto& [name, value] : **dict) {
    if (op.spec->Find(name) == nullptr) {
      Set(op.attributes, name, value);
    } else {
      AddEntry(op, name, value);
    }
  }
}

// Before version 5 the operator's own attributes are among the others.
void ModuleReader::AddEntry(RawOp& op, const std::string& name, const DecodedAttribute& value) {
  if (const OpSpec::Attribute* own = op.spec->Find(name)) return AddAttribute(op, *own, &value);
  auto attribute = Discardable(value);
  if (!attribute) {
    return errors_->Invalid(
        absl::StrCat("the attribute '", name, "' of ", op.spec->name, " has an unexpected form"));
  }
  Set(op.attributes, name, *std::move(attribute));
}

void ModuleReader::SkipUseListOrder(ByteReader& reader, uint64_t num_values) {
  const uint64_t orders = num_values > 1 ? reader.ReadCount() : 1;
  for (uint64_t i = 0; i < orders && reader.ok(); ++i) {
    if (num_values > 1) reader.ReadVarInt();
    const uint64_t count = reader.CheckCount(reader.ReadVarIntWithFlag().first);
    for (uint64_t j = 0; j < count && reader.ok(); ++j) reader.ReadVarInt();
  }
}

template <typename ReadRegionFn>
void ModuleReader::ReadRegions(ByteReader& reader, Scope& scope, const RawOp& op,
                               ReadRegionFn read) {
  if (op.num_regions == 0 || !errors_->ok()) return;
  if (depth_ >= kMaxDepth) return reader.Fail("regions are nested too deeply");
  ++depth_;
  const size_t end = end_;
  if (op.isolated && sections_->version >= kLazyRegions) {
    uint8_t id = 0;
    uint64_t offset = 0;
    const std::string_view bytes = ReadSection(reader, id, offset);
    if (errors_->ok() && id != kIrSection) reader.Fail("an isolated operator has no IR section");
    ByteReader inner(bytes, offset, errors_);
    Scope inner_scope;
    for (uint64_t i = 0; i < op.num_regions && errors_->ok(); ++i) read(inner, inner_scope);
    if (errors_->ok() && !inner.empty()) inner.Fail("a region has bytes left over");
  } else if (op.isolated) {
    Scope inner_scope;
    for (uint64_t i = 0; i < op.num_regions && errors_->ok(); ++i) read(reader, inner_scope);
  } else {
    for (uint64_t i = 0; i < op.num_regions && errors_->ok(); ++i) read(reader, scope);
  }
  end_ = end;
  --depth_;
}

template <typename ReadOperator>
void ModuleReader::ReadRegion(ByteReader& reader, Scope& scope, Region* region,
                              ReadOperator read_op) {
  const uint64_t blocks = reader.ReadVarInt();
  if (blocks == 0 || !errors_->ok()) return;
  if (blocks > 1) return errors_->Unimplemented("a region of several blocks");
  const uint64_t values = reader.ReadVarInt();
  if (values > values_left_) return reader.Fail("a region has more values than the file has bytes");
  values_left_ -= values;
  size_t next = scope.size();
  const size_t base = next;
  scope.resize(base + values, nullptr);
  end_ = base + values;
  ReadBlock(reader, scope, region, next, end_, read_op);
  if (errors_->ok() && next != base + values) {
    reader.Fail("a region defines fewer values than it announced");
  }
  scope.resize(base);
}

template <typename ReadOperator>
void ModuleReader::ReadBlock(ByteReader& reader, Scope& scope, Region* region, size_t& next,
                             size_t end, ReadOperator read_op) {
  const auto [ops, has_arguments] = reader.ReadVarIntWithFlag();
  if (has_arguments) {
    const size_t count = reader.ReadCount();
    for (size_t i = 0; i < count && reader.ok(); ++i) {
      uint64_t type = 0;
      bool located = true;
      if (sections_->version >= kOptionalArgumentLocations) {
        std::tie(type, located) = reader.ReadVarIntWithFlag();
      } else {
        type = reader.ReadVarInt();
      }
      const Location* location = located ? pool_->ReadLocation(reader) : nullptr;
      const Type value_type = pool_->ValueType(type, reader);
      if (!errors_->ok()) return;
      if (region == nullptr) return reader.Fail("a module's body has arguments");
      Value* argument = module_->AddArgument(region, value_type);
      argument->location = location;
      if (!Define(scope, next, end, argument)) return;
    }
    if (sections_->version >= kUseListOrder && reader.ReadByte() != 0) {
      SkipUseListOrder(reader, count);
    }
  }
  const size_t count = reader.CheckCount(ops, 2);
  if (region != nullptr) region->ops.reserve(count);
  for (size_t i = 0; i < count && errors_->ok(); ++i) {
    end_ = end;
    read_op(reader, scope, next);
  }
}

}  // namespace shardway::ir::bytecode
