#include "shardway/ir/verify.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/fault_names.h"
#include "shardway/ir/verify/check.h"

namespace shardway::ir {
namespace {

using verify::Check;

// Passes recurse over regions and over chains of calls.
constexpr int kMaxRegionDepth = 128;
constexpr int kMaxCallDepth = 128;
// Calls are inlined: what a program may grow to.
constexpr uint64_t kMaxInlinedOps = 20'000'000;

bool IsReturn(OpKind kind) {
  return kind == OpKind::kReturn || kind == OpKind::kFuncReturn || kind == OpKind::kSdyReturn;
}

// Attributes that are not the operator's own belong to a dialect.
std::string NameFault(const AttrDict& dict) {
  for (const auto& [name, value] : dict) {
    const size_t dot = name.find('.');
    if (dot == 0 || dot >= name.size() - 1) {
      return absl::StrCat("its attribute \"", absl::CEscape(name), "\" names no dialect");
    }
  }
  return "";
}

bool IsShardyRegion(OpKind kind) {
  return kind == OpKind::kSdyManualComputation || kind == OpKind::kSdyNamedComputation;
}

void VerifyForm(Check& check) {
  verify::VerifyElementwise(check);
  verify::VerifyShape(check);
  verify::VerifyIndexing(check);
  verify::VerifyContraction(check);
  verify::VerifyReduction(check);
  verify::VerifyControl(check);
  verify::VerifyCollective(check);
  verify::VerifyShardy(check);
  verify::VerifyShardingRule(check);
  const Attribute* attribute = check.op().Find("sdy.sharding");
  if (attribute == nullptr || !check.ok()) return;
  const auto* list = attribute->get_if<SdyPerValue>();
  if (list == nullptr) return;
  // An operator without results may have one sharding: the device that has its side effect.
  if (check.num_out() == 0 && list->shardings.size() == 1) return;
  if (list->shardings.size() != check.num_out()) {
    check.Fail("sdy.sharding has not one sharding for each result");
    return;
  }
  for (size_t i = 0; i < check.num_out(); ++i) {
    verify::VerifySharding(check, list->shardings[i], check.out(i));
  }
}

class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module), visible_(module.num_values(), false) {}

  absl::Status Run() {
    for (const auto& [name, mesh] : module_.meshes) {
      if (std::string fault = verify::MeshFault(mesh); !fault.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("the mesh @", name, ": ", fault));
      }
    }
    if (std::string fault = NameFault(module_.attributes); !fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the module: ", fault));
    }
    if (module_.main() == nullptr || module_.main()->body->ops.empty()) {
      return absl::InvalidArgumentError("the module has no function @main");
    }
    for (const Function* function : module_.functions()) {
      SHARDWAY_RETURN_IF_ERROR(VerifyFunction(*function));
    }
    return VerifyCalls();
  }

 private:
  absl::Status VerifyFunction(const Function& function) {
    auto fault = [&function](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("the function @", function.name, ": ", what));
    };
    if (function.body->ops.empty()) return fault("it has no body");
    const auto& arguments = function.arguments();
    if ((!function.arg_attrs.empty() && function.arg_attrs.size() != arguments.size()) ||
        (!function.result_attrs.empty() &&
         function.result_attrs.size() != function.result_types.size())) {
      return fault("it has attributes for another number of arguments or results");
    }
    for (size_t i = 0; i < function.arg_attrs.size(); ++i) {
      const std::string what = AnnotationFault(function.arg_attrs[i], arguments[i]->type);
      if (!what.empty()) return fault(absl::StrCat(NameOfArgument(function, i), ": ", what));
    }
    for (size_t i = 0; i < function.result_attrs.size(); ++i) {
      const std::string what = AnnotationFault(function.result_attrs[i], function.result_types[i]);
      if (!what.empty()) return fault(absl::StrCat(NameOfResult(function, i), ": ", what));
    }
    function_ = &function;
    SHARDWAY_RETURN_IF_ERROR(VerifyRegion(*function.body, OpKind::kFuncReturn, 0));
    const auto& returned = function.body->terminator()->operands;
    bool same = returned.size() == function.result_types.size();
    for (size_t i = 0; same && i < returned.size(); ++i) {
      same = verify::SameType(returned[i]->type, function.result_types[i]);
    }
    return same ? absl::OkStatus() : fault("it returns values of other types than it says");
  }

  std::string AnnotationFault(const AttrDict& dict, const Type& type) {
    if (std::string fault = NameFault(dict); !fault.empty()) return fault;
    const Attribute* attribute = Find(dict, "sdy.sharding");
    if (attribute == nullptr) return "";
    const auto* sharding = attribute->get_if<SdySharding>();
    if (sharding == nullptr) return "sdy.sharding is no sharding";
    return verify::ShardingFault(module_, *sharding, type);
  }

  // Values of `region` are visible in it, and in regions inside unless those are isolated.
  absl::Status VerifyRegion(const Region& region, OpKind end, int depth) {
    if (depth > kMaxRegionDepth) {
      return absl::InvalidArgumentError("regions are nested too deeply");
    }
    for (const Value* argument : region.arguments) visible_[argument->id] = true;
    for (const Op* op : region.ops) {
      Check check(module_, *op);
      const bool last = op == region.ops.back();
      if (last ? op->kind != end : IsReturn(op->kind)) {
        check.Fail(last ? "its region does not end with a return" : "it is not the last operator");
      }
      for (const Value* operand : op->operands) {
        if (check.ok() && !visible_[operand->id])
          check.Fail("it uses a value that is not in scope");
      }
      if (!check.ok()) return check.status();
      SHARDWAY_RETURN_IF_ERROR(VerifyRegionsOf(*op, depth));
      VerifyForm(check);
      if (!check.ok()) return check.status();
      for (const Value* result : op->results) visible_[result->id] = true;
      CountCalls(*op);
    }
    for (const Value* argument : region.arguments) visible_[argument->id] = false;
    for (const Op* op : region.ops) {
      for (const Value* result : op->results) visible_[result->id] = false;
    }
    return absl::OkStatus();
  }

  absl::Status VerifyRegionsOf(const Op& op, int depth) {
    if (op.regions.empty()) return absl::OkStatus();
    const OpKind end = IsShardyRegion(op.kind) ? OpKind::kSdyReturn : OpKind::kReturn;
    std::vector<bool> outside;
    if (IsShardyRegion(op.kind))
      outside = std::exchange(visible_, std::vector<bool>(visible_.size()));
    for (const Region* region : op.regions) {
      if (region->ops.empty()) {
        Check check(module_, op);
        check.Fail("a region is empty");
        return check.status();
      }
      SHARDWAY_RETURN_IF_ERROR(VerifyRegion(*region, end, depth + 1));
    }
    if (IsShardyRegion(op.kind)) visible_ = std::move(outside);
    return absl::OkStatus();
  }

  // Who calls whom, for the bounds on inlining.
  void CountCalls(const Op& op) {
    Calls& calls = calls_[function_];
    ++calls.own_ops;
    auto add = [&](std::string_view name) {
      if (const Function* callee = module_.FindFunction(name)) calls.callees.push_back(callee);
    };
    if (op.kind == OpKind::kCall) add(op.String("callee"));
    if (op.kind == OpKind::kComposite) add(op.String("decomposition"));
    const Attribute* called = op.Find("called_computations");
    if (op.kind != OpKind::kCustomCall || called == nullptr) return;
    if (const auto* array = called->get_if<std::shared_ptr<const AttrArray>>()) {
      for (const Attribute& symbol : **array) {
        if (const auto* ref = symbol.get_if<FlatSymbolRef>()) add(ref->name);
      }
    }
  }

  absl::Status VerifyCalls() {
    for (const Function* function : module_.functions()) {
      SHARDWAY_RETURN_IF_ERROR(Expand(function, 0));
    }
    return absl::OkStatus();
  }

  // Sets the function's size with every call inlined.
  absl::Status Expand(const Function* function, int depth) {
    Calls& calls = calls_[function];
    if (calls.state == Calls::State::kDone) return absl::OkStatus();
    auto fault = [function](std::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("the function @", function->name, " ", std::string(what)));
    };
    if (calls.state == Calls::State::kBusy) return fault("calls itself");
    if (depth > kMaxCallDepth) return fault("is at the end of too long a chain of calls");
    calls.state = Calls::State::kBusy;
    uint64_t total = calls.own_ops;
    int height = 0;
    for (const Function* callee : calls.callees) {
      SHARDWAY_RETURN_IF_ERROR(Expand(callee, depth + 1));
      total += calls_.at(callee).inlined_ops;
      height = std::max(height, calls_.at(callee).height + 1);
      if (total > kMaxInlinedOps)
        return fault("grows beyond all bounds when its calls are inlined");
    }
    if (height > kMaxCallDepth) return fault("begins too long a chain of calls");
    calls.inlined_ops = total;
    calls.height = height;
    calls.state = Calls::State::kDone;
    return absl::OkStatus();
  }

  struct Calls {
    enum class State : uint8_t { kNew, kBusy, kDone };
    State state = State::kNew;
    uint64_t own_ops = 0;
    uint64_t inlined_ops = 0;
    int height = 0;
    std::vector<const Function*> callees;
  };

  const Module& module_;
  const Function* function_ = nullptr;
  std::vector<bool> visible_;  // by value id
  std::unordered_map<const Function*, Calls> calls_;
};

}  // namespace

absl::Status Verify(const Module& module) { return Verifier(module).Run(); }

absl::Status VerifyOp(const Module& module, const Op& op) {
  Check check(module, op);
  VerifyForm(check);
  return check.status();
}

}  // namespace shardway::ir
