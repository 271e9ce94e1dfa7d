#include "shardway/compile/hidden_constants.h"

#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace shardway::compile {
namespace {

class Hoister {
 public:
  explicit Hoister(ir::Module& module) : module_(module), main_(module.main()) {}

  std::vector<HiddenConstant> Run() {
    Find(*main_->body);
    if (!parameters_.empty()) Use(*main_->body);
    return std::move(constants_);
  }

 private:
  void Find(ir::Region& region) {
    size_t kept = 0;
    for (ir::Op* op : region.ops) {
      if (const ir::Constant* big = Big(*op)) {
        parameters_[op->result()] = ParameterFor(*big);
        continue;
      }
      region.ops[kept++] = op;
      for (ir::Region* inner : op->regions) Find(*inner);
    }
    region.ops.resize(kept);
  }

  static const ir::Constant* Big(const ir::Op& op) {
    if (op.kind != ir::OpKind::kConstant) return nullptr;
    const ir::Attribute* value = op.Find("value");
    const auto* constant = value != nullptr ? value->get_if<ir::Constant>() : nullptr;
    if (constant == nullptr || constant->splat ||
        constant->type.num_bytes() <= kMaxInlineConstantBytes) {
      return nullptr;
    }
    return constant;
  }

  ir::Value* ParameterFor(const ir::Constant& constant) {
    ir::Value*& parameter = by_bytes_[{constant.bytes.data(), constant.type.ToString()}];
    if (parameter == nullptr) {
      parameter = module_.AddArgument(main_->body, constant.type);
      main_->arg_attrs.resize(main_->body->arguments.size());
      constants_.push_back({constant.type.element,
                            {constant.type.dims.begin(), constant.type.dims.end()},
                            constant.bytes,
                            constant.owner});
    }
    return parameter;
  }

  void Use(ir::Region& region) {
    for (ir::Op* op : region.ops) {
      for (ir::Value*& v : op->operands) {
        if (auto it = parameters_.find(v); it != parameters_.end()) v = it->second;
      }
      for (ir::Region* inner : op->regions) Use(*inner);
    }
  }

  ir::Module& module_;
  ir::Function* main_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> parameters_;
  absl::flat_hash_map<std::pair<const char*, std::string>, ir::Value*> by_bytes_;
  std::vector<HiddenConstant> constants_;
};

}  // namespace

std::vector<HiddenConstant> HoistConstants(ir::Module& module) { return Hoister(module).Run(); }

}  // namespace shardway::compile
