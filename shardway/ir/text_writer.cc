#include "shardway/ir/text_writer.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "shardway/ir/text_parts.h"

namespace shardway::ir {
namespace {

using text::AppendDict;
using text::AppendOpAttributes;
using text::AppendQuoted;
using text::AppendSymbol;

class Writer {
 public:
  explicit Writer(const TextOptions& options) : options_(options) {}

  std::string Write(const Module& module) {
    out_.reserve(module.num_ops() * 128 + 1024);
    out_ += "module";
    if (!module.name.empty()) {
      out_ += ' ';
      AppendSymbol(out_, module.name);
    }
    WriteDict(" attributes ", module.attributes);
    out_ += " {\n";
    if (options_.sdy) {
      for (const auto& [name, mesh] : module.meshes) {
        out_ += "  sdy.mesh ";
        AppendSymbol(out_, name);
        out_ += " = ";
        text::AppendMesh(out_, mesh);
        out_ += '\n';
      }
    }
    for (const Function* function : module.functions()) WriteFunction(*function);
    out_ += '}';
    WriteLocation(nullptr);
    out_ += '\n';
    WriteLocationTable();
    return std::move(out_);
  }

 private:
  void WriteFunction(const Function& function) {
    out_ += "  func.func ";
    out_ += function.is_public ? "public " : "private ";
    AppendSymbol(out_, function.name);
    out_ += '(';
    for (size_t i = 0; i < function.arguments().size(); ++i) {
      if (i > 0) out_ += ", ";
      const Value* argument = function.arguments()[i];
      WriteArgument(*argument);
      if (i < function.arg_attrs.size()) WriteDict(" ", function.arg_attrs[i]);
      WriteLocation(argument->location);
    }
    out_ += ") -> (";
    for (size_t i = 0; i < function.result_types.size(); ++i) {
      if (i > 0) out_ += ", ";
      function.result_types[i].AppendTo(out_);
      if (i < function.result_attrs.size()) WriteDict(" ", function.result_attrs[i]);
    }
    out_ += ')';
    WriteDict(" attributes ", function.attributes);
    if (!function.body->ops.empty()) {
      out_ += " {\n";
      for (const Op* op : function.body->ops) WriteOp(*op, 2);
      out_ += "  }";
    }
    WriteLocation(function.location);
    out_ += '\n';
  }

  // `prefix` and the dictionary; nothing when that is empty.
  void WriteDict(std::string_view prefix, const AttrDict& dict) {
    const size_t before = out_.size();
    out_ += prefix;
    const size_t after = out_.size();
    AppendDict(out_, dict, options_);
    if (out_.size() == after) out_.resize(before);
  }

  void WriteOp(const Op& op, int depth) {
    out_.append(2 * depth, ' ');
    if (!op.results.empty()) {
      absl::StrAppend(&out_, "%", op.results[0]->id);
      if (op.results.size() > 1) absl::StrAppend(&out_, ":", op.results.size());
      out_ += " = ";
    }
    out_ += '"';
    out_ += OpKindName(op.kind);
    out_ += "\"(";
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (i > 0) out_ += ", ";
      WriteValue(*op.operands[i]);
    }
    out_ += ')';
    if (!op.regions.empty()) {
      out_ += " (";
      for (size_t i = 0; i < op.regions.size(); ++i) {
        if (i > 0) out_ += ", ";
        WriteRegion(*op.regions[i], depth);
      }
      out_ += ')';
    }
    AppendOpAttributes(out_, op, options_);
    out_ += " : (";
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (i > 0) out_ += ", ";
      op.operands[i]->type.AppendTo(out_);
    }
    out_ += ") -> ";
    if (op.results.size() != 1) out_ += '(';
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      op.results[i]->type.AppendTo(out_);
    }
    if (op.results.size() != 1) out_ += ')';
    WriteLocation(op.location);
    out_ += '\n';
  }

  void WriteRegion(const Region& region, int depth) {
    out_ += "{\n";
    if (!region.arguments.empty()) {
      out_.append(2 * depth, ' ');
      out_ += "^bb0(";
      for (size_t i = 0; i < region.arguments.size(); ++i) {
        if (i > 0) out_ += ", ";
        WriteArgument(*region.arguments[i]);
        // Names like "psum:" tell people nothing.
        if (options_.locations == Locations::kTable) WriteLocation(region.arguments[i]->location);
      }
      out_ += "):\n";
    }
    for (const Op* op : region.ops) WriteOp(*op, depth + 1);
    out_.append(2 * depth, ' ');
    out_ += '}';
  }

  void WriteArgument(const Value& argument) {
    WriteValue(argument);
    out_ += ": ";
    argument.type.AppendTo(out_);
  }

  void WriteValue(const Value& value) {
    if (value.def != nullptr && value.def->results.size() > 1) {
      absl::StrAppend(&out_, "%", value.def->results[0]->id, "#", value.index);
    } else {
      absl::StrAppend(&out_, "%", value.id);
    }
  }

  // Of a function, an operator, an argument; null: of nobody knows where.
  void WriteLocation(const Location* location) {
    const bool known = location != nullptr && (!location->name.empty() || !location->file.empty());
    switch (options_.locations) {
      case Locations::kNone:
        return;
      case Locations::kInline:
        if (!known) return;
        out_ += " loc(";
        WriteLocationBody(*location);
        out_ += ')';
        return;
      case Locations::kTable:
        break;
    }
    if (!known) {  // left out, the parser would take the line of this text
      out_ += " loc(unknown)";
      return;
    }
    const auto [it, is_new] = numbers_.try_emplace(location, table_.size());
    if (is_new) table_.push_back(location);
    absl::StrAppend(&out_, " loc(#loc", it->second, ")");
  }

  void WriteLocationBody(const Location& location) {
    const bool file = !location.file.empty();
    if (!location.name.empty()) {
      AppendQuoted(out_, location.name);
      if (file) out_ += '(';
    }
    if (file) {
      AppendQuoted(out_, location.file);
      absl::StrAppend(&out_, ":", location.line, ":", location.column);
      if (!location.name.empty()) out_ += ')';
    }
  }

  void WriteLocationTable() {
    for (size_t i = 0; i < table_.size(); ++i) {
      absl::StrAppend(&out_, "#loc", i, " = loc(");
      WriteLocationBody(*table_[i]);
      out_ += ")\n";
    }
  }

  const TextOptions& options_;
  std::string out_;
  std::vector<const Location*> table_;  // for kTable, in the order of first use
  absl::flat_hash_map<const Location*, size_t> numbers_;
};

}  // namespace

std::string WriteText(const Module& module, const TextOptions& options) {
  return Writer(options).Write(module);
}

}  // namespace shardway::ir
