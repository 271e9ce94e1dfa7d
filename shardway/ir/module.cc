#include "shardway/ir/module.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shardway::ir {

std::string Location::ToString() const {
  std::string where = file;
  if (!file.empty() && line > 0) {
    absl::StrAppend(&where, ":", line);
    if (column > 0) absl::StrAppend(&where, ":", column);
  }
  if (where.empty()) return name.empty() ? "unknown location" : name;
  return name.empty() ? where : absl::StrCat(where, " (", name, ")");
}

const std::vector<int64_t>& Op::IntList(std::string_view name) const {
  static const auto* const empty = new std::vector<int64_t>;
  const Attribute* attribute = Find(name);
  const auto* list = attribute == nullptr ? nullptr : attribute->get_if<std::vector<int64_t>>();
  return list == nullptr ? *empty : *list;
}

int64_t Op::Int(std::string_view name, int64_t fallback) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = attribute->get_if<int64_t>()) return *value;
  if (const auto* typed = attribute->get_if<TypedInt>()) return typed->value;
  return fallback;
}

bool Op::Bool(std::string_view name, bool fallback) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return fallback;
  if (attribute->get_if<Unit>() != nullptr) return true;
  const auto* value = attribute->get_if<bool>();
  return value == nullptr ? fallback : *value;
}

std::string_view Op::String(std::string_view name) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return {};
  if (const auto* text = attribute->get_if<std::string>()) return *text;
  if (const auto* symbol = attribute->get_if<FlatSymbolRef>()) return symbol->name;
  if (const auto* value = attribute->get_if<EnumAttr>()) return value->value;
  return {};
}

Module::Module() : unknown_location_(AddLocation({})) {}

const SdyMesh* Module::FindMesh(std::string_view symbol) const {
  for (const auto& [name, mesh] : meshes) {
    if (name == symbol) return &mesh;
  }
  return nullptr;
}

Function* Module::FindFunction(std::string_view name) const {
  const auto it = functions_by_name_.find(std::string(name));
  return it == functions_by_name_.end() ? nullptr : it->second;
}

Function* Module::AddFunction(std::string name) {
  Function* function = &function_storage_.emplace_back();
  function->body = NewRegion();
  function->location = unknown_location_;
  functions_by_name_[name] = function;
  function->name = std::move(name);
  functions_.push_back(function);
  return function;
}

Region* Module::NewRegion() { return &regions_.emplace_back(); }

Value* Module::AddArgument(Region* region, Type type) {
  Value* value = &values_.emplace_back();
  value->type = std::move(type);
  value->id = static_cast<uint32_t>(values_.size() - 1);
  value->owner = region;
  value->index = static_cast<int>(region->arguments.size());
  region->arguments.push_back(value);
  return value;
}

Op* Module::Append(Region* region, OpKind kind, absl::Span<Value* const> operands,
                   absl::Span<const Type> result_types, const Location* location) {
  Op* op = &ops_.emplace_back();
  op->kind = kind;
  op->operands.assign(operands.begin(), operands.end());
  op->location = location == nullptr ? unknown_location_ : location;
  op->results.reserve(result_types.size());
  for (const Type& type : result_types) AddResult(op, type);
  if (region != nullptr) {
    op->parent = region;
    region->ops.push_back(op);
  }
  return op;
}

Value* Module::AddResult(Op* op, Type type) {
  Value* value = &values_.emplace_back();
  value->type = std::move(type);
  value->id = static_cast<uint32_t>(values_.size() - 1);
  value->def = op;
  value->index = static_cast<int>(op->results.size());
  op->results.push_back(value);
  return value;
}

Region* Module::AddRegion(Op* op) {
  Region* region = NewRegion();
  region->parent = op;
  op->regions.push_back(region);
  return region;
}

const Location* Module::AddLocation(Location location) {
  return &locations_.emplace_back(std::move(location));
}

}  // namespace shardway::ir
