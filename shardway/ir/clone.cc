#include "shardway/ir/clone.h"

#include <utility>

namespace shardway::ir {

Value* Cloner::Map(const Value* value) const {
  const auto it = values_.find(value);
  return it == values_.end() ? const_cast<Value*>(value) : it->second;
}

const Location* Cloner::CloneLocation(const Location* location) {
  if (location == nullptr) return target_->unknown_location();
  auto [it, inserted] = locations_.try_emplace(location, nullptr);
  if (inserted) it->second = target_->AddLocation(*location);
  return it->second;
}

Op* Cloner::CloneOp(const Op& op, Region* into) {
  Op* copy = target_->Append(into, op.kind, {}, {}, CloneLocation(op.location));
  copy->operands.reserve(op.operands.size());
  for (const Value* operand : op.operands) copy->operands.push_back(Map(operand));
  copy->attributes = op.attributes;
  copy->results.reserve(op.results.size());
  for (const Value* result : op.results) Bind(result, target_->AddResult(copy, result->type));
  for (const Region* region : op.regions) CloneRegion(*region, target_->AddRegion(copy));
  return copy;
}

std::vector<Value*> Cloner::CloneBody(const Region& from, Region* into) {
  const Op* terminator = from.terminator();
  for (const Op* op : from.ops) {
    if (op != terminator) CloneOp(*op, into);
  }
  std::vector<Value*> results;
  if (terminator == nullptr) return results;
  results.reserve(terminator->operands.size());
  for (const Value* operand : terminator->operands) results.push_back(Map(operand));
  return results;
}

void Cloner::CloneRegion(const Region& from, Region* into) {
  for (const Value* argument : from.arguments) {
    Value* copy = target_->AddArgument(into, argument->type);
    if (argument->location != nullptr) copy->location = CloneLocation(argument->location);
    Bind(argument, copy);
  }
  for (const Op* op : from.ops) CloneOp(*op, into);
}

Function* Cloner::CloneFunction(const Function& function, std::string name) {
  Function* copy = target_->AddFunction(std::move(name));
  copy->is_public = function.is_public;
  copy->result_types = function.result_types;
  copy->arg_attrs = function.arg_attrs;
  copy->result_attrs = function.result_attrs;
  copy->attributes = function.attributes;
  copy->location = CloneLocation(function.location);
  CloneRegion(*function.body, copy->body);
  return copy;
}

}  // namespace shardway::ir
