// Our IR: StableHLO in static single assignment, small enough to hold in the head.
//
//   Module    owns everything below; pointers into it live as long as it does
//   Function  name, arguments and results with attributes, one body region
//   Region    one block: arguments, then operators in order; the last one is a return
//   Op        kind, operands, results, attributes, regions, where the user wrote it
//   Value     result of an Op or argument of a Region; `id` is dense within its Module
//
// Passes translate a module into a new one; they never patch in place. So nothing is ever erased,
// and uses are not tracked: a pass that needs them counts them. Not thread-safe; a finished module
// may be read by many threads.
//
// Attribute names are StableHLO's own ("dot_dimension_numbers" is kept flattened as in VHLO:
// "lhs_batching_dimensions", …), always in the current version's form; see attribute.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "shardway/ir/attribute.h"
#include "shardway/ir/op_kind.h"
#include "shardway/ir/type.h"

namespace shardway::ir {

class Module;
struct Op;
struct Region;

// Where the user wrote it. `name` is JAX's name stack ("jit(step)/dot_general"); the file is empty
// and the line 0 when unknown.
struct Location {
  std::string name;
  std::string file;
  int line = 0;
  int column = 0;
  // `train.py:12:3 (jit(step)/dot_general)`, as far as known.
  std::string ToString() const;
};

struct Value {
  Type type;
  uint32_t id = 0;          // dense in the module: passes keep their facts in vectors
  Op* def = nullptr;        // the operator this is a result of; null for a region's argument
  Region* owner = nullptr;  // the region this is an argument of; null for a result
  int index = 0;            // which result or argument
  const Location* location = nullptr;  // of an argument, where the artifact says: its name
};

struct Op {
  OpKind kind;
  std::vector<Value*> operands;
  std::vector<Value*> results;
  AttrDict attributes;  // inherent and discardable attributes together
  std::vector<Region*> regions;
  const Location* location = nullptr;  // never null once in a region
  Region* parent = nullptr;

  Value* result(int i = 0) const { return results[i]; }
  Value* operand(int i) const { return operands[i]; }
  const Attribute* Find(std::string_view name) const { return ir::Find(attributes, name); }

  // Typed look-ups; the value when present and of that form, otherwise the default.
  const std::vector<int64_t>& IntList(std::string_view name) const;  // empty list by default
  int64_t Int(std::string_view name, int64_t fallback = 0) const;    // int64_t or TypedInt
  bool Bool(std::string_view name, bool fallback = false) const;
  std::string_view String(std::string_view name) const;  // string, symbol or enum value
};

struct Region {
  std::vector<Value*> arguments;
  std::vector<Op*> ops;
  Op* parent = nullptr;  // null for a function's body

  Op* terminator() const { return ops.empty() ? nullptr : ops.back(); }
};

struct Function {
  std::string name;
  bool is_public = false;
  Region* body = nullptr;
  std::vector<Type> result_types;
  std::vector<AttrDict> arg_attrs;     // one per argument
  std::vector<AttrDict> result_attrs;  // one per result
  AttrDict attributes;                 // discardable ones of the function itself
  const Location* location = nullptr;

  const std::vector<Value*>& arguments() const { return body->arguments; }
};

class Module {
 public:
  Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::string name;
  AttrDict attributes;  // mhlo.num_partitions and the like

  // Meshes by symbol, in the order of the module.
  std::vector<std::pair<std::string, SdyMesh>> meshes;
  const SdyMesh* FindMesh(std::string_view symbol) const;

  // Functions in the order of the module; the entry is "main".
  const std::vector<Function*>& functions() const { return functions_; }
  Function* FindFunction(std::string_view name) const;
  Function* main() const { return FindFunction("main"); }
  // AlreadyExists is the reader's business: adding a name twice replaces the look-up.
  Function* AddFunction(std::string name);

  // Makers. Everything made belongs to the module.
  Region* NewRegion();
  Value* AddArgument(Region* region, Type type);
  // Appends an operator to `region` (when not null) with fresh results of these types.
  Op* Append(Region* region, OpKind kind, absl::Span<Value* const> operands,
             absl::Span<const Type> result_types, const Location* location);
  // Appends one fresh result to an operator; for makers that learn the types late.
  Value* AddResult(Op* op, Type type);
  Region* AddRegion(Op* op);
  const Location* AddLocation(Location location);
  const Location* unknown_location() const { return unknown_location_; }

  uint32_t num_values() const { return static_cast<uint32_t>(values_.size()); }
  size_t num_ops() const { return ops_.size(); }

  // Bytes that constants point into stay alive with the module.
  void KeepAlive(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

 private:
  std::deque<Value> values_;
  std::deque<Op> ops_;
  std::deque<Region> regions_;
  std::deque<Function> function_storage_;
  std::deque<Location> locations_;
  std::vector<Function*> functions_;
  absl::flat_hash_map<std::string, Function*> functions_by_name_;
  std::vector<std::shared_ptr<const void>> owners_;
  const Location* unknown_location_;
};

}  // namespace shardway::ir
