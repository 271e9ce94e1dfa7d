#include "shardway/compile/approx_top_k.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/compile/scalar_body.h"
#include "shardway/ir/builder.h"

namespace shardway::compile {
namespace {

const ir::AttrDict* Config(const ir::Op& op) {
  for (const char* name : {"mhlo.backend_config", "backend_config"}) {
    const ir::Attribute* a = op.Find(name);
    const auto* dict = a != nullptr ? a->get_if<std::shared_ptr<const ir::AttrDict>>() : nullptr;
    if (dict != nullptr) return dict->get();
  }
  return nullptr;
}

int64_t IntOf(const ir::AttrDict& dict, std::string_view name, int64_t fallback) {
  const ir::Attribute* a = ir::Find(dict, name);
  if (a == nullptr) return fallback;
  if (const auto* plain = a->get_if<int64_t>()) return *plain;
  const auto* typed = a->get_if<ir::TypedInt>();
  return typed != nullptr ? typed->value : fallback;
}

const ir::Function* Comparator(const ir::Module& from, const ir::Op& op) {
  const ir::Attribute* a = op.Find("called_computations");
  const auto* list = a != nullptr ? a->get_if<std::shared_ptr<const ir::AttrArray>>() : nullptr;
  if (list == nullptr || (*list)->size() != 1) return nullptr;
  const auto* symbol = (**list)[0].get_if<ir::FlatSymbolRef>();
  return symbol != nullptr ? from.FindFunction(symbol->name) : nullptr;
}

}  // namespace

bool IsApproxTopK(const ir::Op& op) { return op.String("call_target_name") == "ApproxTopK"; }

absl::StatusOr<std::vector<ir::Op*>> LowerApproxTopK(const ir::Module& from, const ir::Op& op,
                                                     ir::Region* into, ir::Module& to,
                                                     ir::Cloner& cloner) {
  const size_t n = op.results.size();
  const ir::AttrDict* config = Config(op);
  const ir::Function* comparator = Comparator(from, op);
  auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("ApproxTopK at ", op.location->ToString(), ": ", std::string(what)));
  };
  if (config == nullptr) return wrong("no backend_config");
  if (comparator == nullptr) return wrong("called_computations must name one function");
  if (n == 0 || op.operands.size() != 2 * n) return wrong("two operands for each result expected");
  if (comparator->arguments().size() != 2 * n) return wrong("its comparator does not fit");
  const ir::Type& shape = op.operand(0)->type;
  const int64_t dim = IntOf(*config, "reduction_dim", -1);
  if (dim < 0 || dim >= shape.rank()) return wrong("no such reduction_dim");

  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (size_t i = 0; i < n; ++i) {
    const ir::Type& result = op.result(static_cast<int>(i))->type;
    bool fits = op.operand(i)->type.dims == shape.dims && result.rank() == shape.rank();
    for (int d = 0; fits && d < shape.rank(); ++d)
      fits = d == dim ? result.dims[d] <= shape.dims[d] : result.dims[d] == shape.dims[d];
    if (!fits) return wrong("its results do not fit its operands");
    operands.push_back(cloner.Map(op.operand(i)));
    types.push_back(op.operand(i)->type);
  }
  const ir::Location* location = cloner.CloneLocation(op.location);
  ir::Op* sort = to.Append(into, ir::OpKind::kSort, operands, types, location);
  ir::Set(sort->attributes, "dimension", dim);
  ir::Set(sort->attributes, "is_stable", true);
  SHARDWAY_RETURN_IF_ERROR(CopyScalarBody(from, *comparator->body, to.AddRegion(sort), to, cloner));
  std::vector<ir::Op*> made = {sort};
  ir::Builder b(&to, into);
  b.set_location(location);
  for (size_t i = 0; i < n; ++i) {
    const ir::Type& result = op.result(static_cast<int>(i))->type;
    ir::Value* first =
        b.Slice(sort->results[i], std::vector<int64_t>(result.dims.size()), result.dims);
    made.push_back(first->def);
    cloner.Bind(op.result(static_cast<int>(i)), first);
  }
  return made;
}

}  // namespace shardway::compile
