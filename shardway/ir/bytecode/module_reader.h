// Reads the IR section: regions of operators whose operands are numbers of earlier values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardway/ir/bytecode/op_table.h"
#include "shardway/ir/bytecode/pool.h"
#include "shardway/ir/bytecode/sections.h"
#include "shardway/ir/module.h"

namespace shardway::ir::bytecode {

class ModuleReader {
 public:
  // Regions nested deeper than this are refused; later passes recurse over them.
  static constexpr int kMaxDepth = 128;

  ModuleReader(const Sections* sections, Pool* pool, Module* module, ErrorSink* errors);

  // Fills the module. Errors are in the sink.
  void Read();

 private:
  // Values by number. An isolated region begins a scope of its own; any other reserves numbers
  // behind those of the regions around it.
  using Scope = std::vector<Value*>;

  // An operator as it stands in the file, its regions not yet read.
  struct RawOp {
    const OpSpec* spec = nullptr;
    const Location* location = nullptr;
    AttrDict attributes;
    const FunctionType* function_type = nullptr;
    std::vector<Type> result_types;
    std::vector<Value*> operands;
    uint64_t num_regions = 0;
    bool isolated = false;
  };

  RawOp ReadRawOp(ByteReader& reader, Scope& scope);
  void ReadProperties(ByteReader& reader, RawOp& op);
  void ReadDictionary(ByteReader& reader, RawOp& op);
  void AddAttribute(RawOp& op, const OpSpec::Attribute& attribute, const DecodedAttribute* decoded);
  void AddEntry(RawOp& op, const std::string& name, const DecodedAttribute& value);
  void SkipUseListOrder(ByteReader& reader, uint64_t num_values);

  // One operator of `region`; its results take the numbers from `next` on.
  void ReadOp(ByteReader& reader, Scope& scope, Region* region, bool in_function, size_t& next);
  void ReadModuleOp(ByteReader& reader, Scope& scope);
  void ReadFunction(ByteReader& reader, Scope& scope, RawOp op);
  void ReadMesh(const RawOp& op);

  // Reads `count` regions with `read(reader, scope)`, out of their own section when isolated.
  template <typename ReadRegion>
  void ReadRegions(ByteReader& reader, Scope& scope, const RawOp& op, ReadRegion read);
  // A region with one block: its arguments go to `region` (null: it may have none), its operators
  // to `read_op(reader, scope, next)`.
  template <typename ReadOperator>
  void ReadRegion(ByteReader& reader, Scope& scope, Region* region, ReadOperator read_op);
  template <typename ReadOperator>
  void ReadBlock(ByteReader& reader, Scope& scope, Region* region, size_t& next, size_t end,
                 ReadOperator read_op);
  bool Define(Scope& scope, size_t& next, size_t end, Value* value);

  const Sections* sections_;
  Pool* pool_;
  Module* module_;
  ErrorSink* errors_;
  std::vector<const OpSpec*> specs_;  // by operator name
  uint64_t values_left_;              // how many more values the file is large enough for
  size_t end_ = 0;                    // one past the numbers of the current region
  int depth_ = 0;
};

}  // namespace shardway::ir::bytecode
