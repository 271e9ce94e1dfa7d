#include "shardway/compile/explanation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "shardway/collective/bytes_sent.h"
#include "shardway/compile/json_writer.h"
#include "shardway/compile/trip_counts.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/text_writer.h"
#include "shardway/sharding/sdy_notation.h"

namespace shardway::compile {
namespace {

using sharding::AxisList;
using sharding::AxisSet;
using spmd::Cause;
using spmd::Decision;
using spmd::Sharding;

std::string NameOf(const ir::Op& op) {
  if (op.kind == ir::OpKind::kSdyShardingConstraint) return "sharding_constraint";
  if (op.kind == ir::OpKind::kFuncReturn) return "result";
  if (op.kind == ir::OpKind::kCustomCall) return std::string(op.String("call_target_name"));
  const std::string name(ir::OpKindName(op.kind));
  return name.substr(name.find('.') + 1);
}

class Explainer {
 public:
  Explainer(const spmd::Program& program, const std::vector<Sharding>& shardings,
            const spmd::Decisions& decisions, const spmd::PerDevice& device)
      : program_(program), shardings_(shardings), decisions_(decisions), device_(device) {
    const ir::Op* end = program.module->main()->body->terminator();
    for (size_t i = 0; i < end->operands.size(); ++i) boundary_.push_back(end->operands[i]);
  }

  std::string Write() {
    json_.Object();
    json_.Key("name").String(program_.module->name);
    json_.Key("devices").Number(static_cast<double>(program_.mesh.num_devices()));
    json_.Key("replicas").Number(static_cast<double>(program_.num_replicas));
    json_.Key("mesh").Array();
    const sharding::SdyNotation notation(program_.mesh);
    for (const auto& axis : notation.mesh().axes) {
      json_.Object().Key("name").String(axis.name);
      json_.Key("size").Number(static_cast<double>(axis.size)).EndObject();
    }
    json_.EndArray().Key("operators").Array();
    for (const ir::Value* v : program_.module->main()->arguments()) {
      Operator("argument", ArgumentName(*v), 0, nullptr, {&v, 1});
    }
    Region(*program_.module->main()->body, 0);
    json_.EndArray().Key("collectives").Array();
    const std::vector<Trips> trips = TripsOfSites(*device_.module, device_.collectives.size());
    for (size_t i = 0; i < device_.collectives.size(); ++i) {
      Collective(device_.collectives[i], device_.causes[i], trips[i]);
    }
    json_.EndArray().EndObject();
    return json_.Take();
  }

 private:
  static std::string ArgumentName(const ir::Value& v) {
    if (v.location != nullptr && !v.location->name.empty()) return v.location->name;
    return absl::StrCat("argument ", v.index);
  }

  // Which result of the program this is, or -1.
  int ResultNumber(const ir::Value* v) const {
    const auto at = std::find(boundary_.begin(), boundary_.end(), v);
    return at == boundary_.end() ? -1 : static_cast<int>(at - boundary_.begin());
  }

  void Region(const ir::Region& region, int depth) {
    for (const ir::Op* op : region.ops) {
      if (op->kind == ir::OpKind::kReturn || op->kind == ir::OpKind::kFuncReturn) continue;
      const bool constraint = op->kind == ir::OpKind::kSdyShardingConstraint;
      const int result = constraint ? ResultNumber(op->result()) : -1;
      const std::vector<const ir::Value*> values(op->results.begin(), op->results.end());
      if (result >= 0) {
        Operator("result", absl::StrCat("result ", result), depth, op->location, values);
        continue;
      }
      Operator(NameOf(*op), "", depth, op->location, values);
      if (op->kind != ir::OpKind::kWhile && op->kind != ir::OpKind::kIf &&
          op->kind != ir::OpKind::kCase) {
        continue;
      }
      for (const ir::Region* inner : op->regions) Region(*inner, depth + 1);
    }
  }

  void Operator(std::string_view kind, std::string_view name, int depth,
                const ir::Location* location, absl::Span<const ir::Value* const> values) {
    json_.Object().Key("operator").String(kind).Key("name").String(name);
    json_.Key("depth").Number(depth);
    Where(location);
    json_.Key("values").Array();
    for (const ir::Value* v : values) Value(*v);
    json_.EndArray().EndObject();
  }

  void Value(const ir::Value& v) {
    const Sharding& sharding = shardings_[v.id];
    json_.Object().Key("type").String(v.type.ToString());
    json_.Key("shard").String(sharding::LocalType(v.type, sharding, program_.mesh).ToString());
    std::string text = ToString(sharding, program_.mesh);
    if (const AxisSet unreduced = program_.unreduced_of(&v); unreduced != 0) {
      const sharding::Mesh& mesh = program_.mesh;
      absl::StrAppend(&text, " unreduced={", mesh.ToString(mesh.ToList(unreduced)), "}");
    }
    json_.Key("sharding").String(text);
    json_.Key("reasons").Array();
    for (int d = 0; d < sharding.rank(); ++d) Reasons(v, d, sharding.dims[d]);
    json_.EndArray().EndObject();
  }

  const Decision* Find(const ir::Value& v, uint8_t atom) const {
    for (const Decision& decision : decisions_[v.id]) {
      if (std::find(decision.axes.begin(), decision.axes.end(), atom) != decision.axes.end())
        return &decision;
    }
    return nullptr;
  }

  // One reason for each stretch of axes that came the same way.
  void Reasons(const ir::Value& v, int d, const AxisList& axes) {
    for (size_t i = 0; i < axes.size();) {
      const Decision* decision = Find(v, axes[i]);
      AxisList stretch;
      while (i < axes.size() && Find(v, axes[i]) == decision) stretch.push_back(axes[i++]);
      json_.Object().Key("axes").String(program_.mesh.ToString(stretch));
      json_.Key("dimension").Number(d).Key("annotation").Bool(decision == nullptr);
      const ir::Op* by = decision != nullptr ? decision->by : nullptr;
      const char* otherwise = decision != nullptr ? "sharding_group" : "";
      json_.Key("operator").String(by != nullptr ? UserName(*by) : otherwise);
      Where(by != nullptr ? by->location : nullptr);
      json_.Key("origin").String(Origin(v, stretch[0]));
      json_.EndObject();
    }
  }

  // Follows an axis from value to value back to the annotation that named it.
  std::string Origin(const ir::Value& start, uint8_t atom) const {
    const ir::Value* v = &start;
    for (size_t steps = 0; steps < shardings_.size(); ++steps) {
      const Decision* decision = Find(*v, atom);
      if (decision == nullptr || decision->from == v) break;
      v = decision->from;
    }
    if (v->def == nullptr) {
      if (v->owner == program_.module->main()->body) return ArgumentName(*v);
      return absl::StrCat("argument ", v->index, " of a loop's body");
    }
    if (const int result = ResultNumber(v); result >= 0) return absl::StrCat("result ", result);
    return absl::StrCat(NameOf(*v->def), " at ", v->def->location->ToString());
  }

  void Collective(const collective::Spec& spec, const Cause& cause, const Trips& trips) {
    json_.Object().Key("site").Number(spec.site);
    json_.Key("kind").String(collective::KindName(spec.kind));
    json_.Key("call").String(spec.ToString()).Key("axes").String(AxesOf(spec.groups));
    json_.Key("bytes").Number(collective::BytesSent(spec)).Key("times");
    if (trips.bounded) {
      json_.Number(trips.count);
    } else {
      json_.Null();
    }
    json_.Key("cause").String(
        absl::StrCat(Describe(cause), cause.ring >= 0 ? "; a hop of a windowed einsum" : ""));
    Where(LineOf(cause));
    json_.EndObject();
  }

  // "x,y"; empty for groups that are no mesh axes.
  std::string AxesOf(const collective::Groups& groups) const {
    std::vector<sharding::Stride> strides;
    for (int axis : groups.axes) {
      int64_t stride = 1;
      for (size_t i = axis + 1; i < groups.mesh.size(); ++i) stride *= groups.mesh[i];
      strides.push_back({groups.mesh[axis], stride});
    }
    const auto atoms = program_.mesh.AtomsOf(strides);
    return atoms ? program_.mesh.ToString(*atoms) : "";
  }

  // The boundary has no line of its own: there, the line of the value that is laid out otherwise.
  static const ir::Location* LineOf(const Cause& cause) {
    if (cause.op == nullptr) return nullptr;
    const ir::Op* op = cause.op;
    for (int steps = 0; steps < 2 && op->location != nullptr && op->location->file.empty();
         ++steps) {
      if (cause.kind != Cause::Kind::kOperand || op->operands.empty()) break;
      const size_t i = steps == 0 ? cause.index : 0;
      if (i >= op->operands.size() || op->operands[i]->def == nullptr) break;
      op = op->operands[i]->def;
    }
    return op->location;
  }

  std::string Describe(const Cause& cause) const {
    if (cause.kind == Cause::Kind::kOrder) {
      return absl::StrCat(cause.op == nullptr ? "argument " : "result ", cause.index,
                          " lies on the devices in another order");
    }
    if (cause.op == nullptr) return "";
    const std::string name = UserName(*cause.op);
    const auto from = [&] { return ToString(cause.from, program_.mesh); };
    const auto to = [&] { return ToString(cause.to, program_.mesh); };
    switch (cause.kind) {
      case Cause::Kind::kOperator:
        return absl::StrCat(name, " itself");
      case Cause::Kind::kOperand:
        if (cause.op->kind == ir::OpKind::kSdyShardingConstraint) {
          return absl::StrCat(name, " wants ", to(), ", its operand is ", from());
        }
        return absl::StrCat("operand ", cause.index, " of ", name, " is ", from(),
                            ", computed with as ", to());
      case Cause::Kind::kResult:
        return absl::StrCat("result ", cause.index, " of ", name, " is computed as ", from(),
                            ", wanted as ", to());
      case Cause::Kind::kPartial:
        return absl::StrCat("the parts of result ", cause.index, " of ", name,
                            " are combined, wanted as ", to());
      case Cause::Kind::kOrder:
        break;
    }
    return "";
  }

  std::string UserName(const ir::Op& op) const {
    if (op.kind == ir::OpKind::kSdyShardingConstraint) {
      const int result = ResultNumber(op.result());
      if (result >= 0) return absl::StrCat("result ", result);
    }
    return NameOf(op);
  }

  void Where(const ir::Location* location) {
    static const ir::Location kUnknown;
    const ir::Location& l = location != nullptr ? *location : kUnknown;
    json_.Key("where").Object().Key("file").String(l.file).Key("line").Number(l.line);
    json_.Key("column").Number(l.column).Key("name").String(l.name).EndObject();
  }

  const spmd::Program& program_;
  const std::vector<Sharding>& shardings_;
  const spmd::Decisions& decisions_;
  const spmd::PerDevice& device_;
  std::vector<const ir::Value*> boundary_;  // the results of the program
  JsonWriter json_;
};

void Annotate(const ir::Region& from, ir::Region& to, const std::vector<Sharding>& shardings,
              const sharding::SdyNotation& notation) {
  for (size_t i = 0; i < from.ops.size(); ++i) {
    const ir::Op& op = *from.ops[i];
    ir::SdyPerValue list;
    for (const ir::Value* v : op.results)
      list.shardings.push_back(notation.Write(shardings[v->id]));
    if (op.kind == ir::OpKind::kSdyShardingConstraint) {
      ir::Set(to.ops[i]->attributes, "sharding", list.shardings[0]);
    } else if (!list.shardings.empty()) {
      ir::Set(to.ops[i]->attributes, "sdy.sharding", std::move(list));
    }
    for (size_t r = 0; r < op.regions.size(); ++r) {
      const bool runs = op.kind == ir::OpKind::kWhile || op.kind == ir::OpKind::kIf ||
                        op.kind == ir::OpKind::kCase;
      if (runs) Annotate(*op.regions[r], *to.ops[i]->regions[r], shardings, notation);
    }
  }
}

}  // namespace

std::string Explain(const spmd::Program& program, const std::vector<Sharding>& shardings,
                    const spmd::Decisions& decisions, const spmd::PerDevice& device) {
  return Explainer(program, shardings, decisions, device).Write();
}

std::string WriteWithShardings(const spmd::Program& program,
                               const std::vector<Sharding>& shardings) {
  constexpr size_t kMaxConstantBytes = 256;
  const sharding::SdyNotation notation(program.mesh);
  const ir::Function& main = *program.module->main();
  ir::Module copy;
  copy.name = program.module->name;
  copy.meshes.emplace_back("mesh", notation.mesh());
  ir::Function* annotated = ir::Cloner(&copy).CloneFunction(main, main.name);
  Annotate(*main.body, *annotated->body, shardings, notation);
  for (size_t i = 0; i < main.arguments().size(); ++i) {
    ir::Erase(annotated->arg_attrs[i], "mhlo.sharding");
    ir::Set(annotated->arg_attrs[i], "sdy.sharding",
            notation.Write(shardings[main.arguments()[i]->id]));
  }
  for (ir::AttrDict& attributes : annotated->result_attrs) {
    ir::Erase(attributes, "sdy.sharding");
    ir::Erase(attributes, "mhlo.sharding");
  }
  ir::TextOptions options;
  options.locations = ir::Locations::kInline;
  options.max_constant_bytes = kMaxConstantBytes;
  return ir::WriteText(copy, options);
}

}  // namespace shardway::compile
