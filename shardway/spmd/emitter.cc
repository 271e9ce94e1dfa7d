#include "shardway/spmd/emitter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "shardway/ir/attribute.h"
#include "shardway/spmd/reshard.h"

namespace shardway::spmd {
namespace {

// Row-major for all: left to itself, XLA may choose another layout, which the handler could not
// see.
ir::Attribute RowMajorLayouts(absl::Span<const ir::Type> types) {
  ir::AttrArray layouts;
  for (const ir::Type& type : types) {
    std::vector<int64_t> minor_to_major;
    for (int d = type.rank(); d-- > 0;) minor_to_major.push_back(d);
    layouts.push_back(std::move(minor_to_major));
  }
  return std::make_shared<const ir::AttrArray>(std::move(layouts));
}

collective::Shaped ShapedOf(const ir::Type& type) {
  return {type.element, std::vector<int64_t>(type.dims.begin(), type.dims.end())};
}

// XLA's CPU backend packs elements of less than a byte, comm does not know by which rules: they
// travel in a type that holds each of their values, wraps around where they do and is a whole byte.
ElementType CarrierOf(ElementType element) {
  if (ElementBits(element) >= 8 || element == ElementType::kI1) return element;
  if (IsFloat(element)) return ElementType::kF16;
  return IsSignedInteger(element) ? ElementType::kI8 : ElementType::kUI8;
}

// "all-reduce(sum f32[128] over axes [0] of [2,4])": found, and counted, by whoever looks for XLA's
// collectives.
std::string CallText(const collective::Spec& spec) {
  const std::string text = spec.ToString();
  const size_t kind = std::string_view(collective::KindName(spec.kind)).size();
  return absl::StrCat(spec.FieldName(), "(", text.substr(kind + 1), ")");
}

}  // namespace

Emitter::Emitter(ir::Module* module, ir::Region* body, const Mesh* mesh, int64_t num_replicas,
                 Backend backend)
    : module_(module),
      body_(body),
      prologue_(module->NewRegion()),
      mesh_(mesh),
      num_replicas_(num_replicas),
      backend_(backend),
      builder_(module, body) {
  if (backend == Backend::kFfi) {
    const int64_t two[] = {2};
    place_ = module->AddArgument(prologue_, ir::Type::Tensor(ElementType::kI32, two));
  }
}

ir::Value* Emitter::Id(int which) {
  if (ids_[which] != nullptr) return ids_[which];
  ir::Builder b(module_, prologue_);
  if (backend_ == Backend::kNative) {
    const ir::Type type = ir::Type::Scalar(ElementType::kUI32);
    const auto kind = which == 0 ? ir::OpKind::kReplicaId : ir::OpKind::kPartitionId;
    return ids_[which] = b.Convert(b.Create(kind, {}, {&type, 1})->result(), ElementType::kI32);
  }
  const int64_t start[] = {which};
  const int64_t limit[] = {which + 1};
  return ids_[which] = b.Reshape(b.Slice(place_, start, limit), {});
}

ir::Value* Emitter::PartitionId() { return builder_.Convert(Id(1), ElementType::kUI32); }
ir::Value* Emitter::ReplicaId() { return builder_.Convert(Id(0), ElementType::kUI32); }

ir::Value* Emitter::Coordinate(const AxisList& axes) {
  if (auto it = coordinates_.find(axes); it != coordinates_.end()) return it->second;
  ir::Value* id = Id(1);
  ir::Builder b(module_, prologue_);
  const ir::Type i32 = ir::Type::Scalar(ElementType::kI32);
  ir::Value* index = nullptr;
  for (size_t i = 0; i < axes.size();) {
    // Neighbouring atoms are one digit.
    size_t end = i + 1;
    int64_t size = mesh_->size(axes[i]);
    while (end < axes.size() && axes[end] == axes[end - 1] + 1) size *= mesh_->size(axes[end++]);
    const int64_t stride = mesh_->stride(axes[end - 1]);
    ir::Value* digit = id;
    if (stride > 1) digit = b.Binary(ir::OpKind::kDivide, digit, b.SplatInt(i32, stride));
    if (stride * size < mesh_->num_devices()) {
      digit = b.Binary(ir::OpKind::kRemainder, digit, b.SplatInt(i32, size));
    }
    if (index != nullptr) {
      index = b.Binary(ir::OpKind::kMultiply, index, b.SplatInt(i32, size));
      digit = b.Binary(ir::OpKind::kAdd, index, digit);
    }
    index = digit;
    i = end;
  }
  if (index == nullptr) index = b.SplatInt(i32, 0);
  coordinates_.emplace(axes, index);
  return index;
}

bool Emitter::HasReduction(collective::Reduction reduction, ElementType element) const {
  using collective::Reduction;
  if (backend_ == Backend::kFfi) return true;
  if (reduction == Reduction::kXor) return false;
  return element == ElementType::kI1 ||
         (reduction != Reduction::kAnd && reduction != Reduction::kOr);
}

ir::Value* Emitter::GatherAndReduce(ir::Value* x, collective::Reduction reduction,
                                    const AxisList& axes) {
  const ir::Type type = x->type;
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), type.dims.begin(), type.dims.end());
  ir::Value* all = AllGather(builder_.Reshape(x, dims), 0, axes);
  // The neutral element: every bit set for `and`, none for the others.
  ir::Value* init = builder_.SplatInt(ir::Type::Scalar(type.element),
                                      reduction == collective::Reduction::kAnd ? -1 : 0);
  ir::Value* operands[] = {all, init};
  ir::AttrDict attributes;
  ir::Set(attributes, "dimensions", std::vector<int64_t>{0});
  ir::Op* op = builder_.Create(ir::OpKind::kReduce, operands, {&type, 1}, std::move(attributes));
  BuildReducer(module_, module_->AddRegion(op), reduction, type.element);
  return op->result();
}

ir::Value* Emitter::AllReduce(ir::Value* x, collective::Reduction reduction, const AxisList& axes) {
  if (axes.empty()) return x;
  if (!HasReduction(reduction, x->type.element)) return GatherAndReduce(x, reduction, axes);
  collective::Spec spec;
  spec.kind = collective::Kind::kAllReduce;
  spec.reduction = reduction;
  spec.groups = GroupsOver(axes);
  return Collective(std::move(spec), {&x, 1}, {&x->type, 1})[0];
}

ir::Value* Emitter::AllGather(ir::Value* x, int64_t dim, const AxisList& axes) {
  if (axes.empty()) return x;
  collective::Spec spec;
  spec.kind = collective::Kind::kAllGather;
  spec.dim0 = dim;
  spec.groups = GroupsOver(axes);
  ir::Type type = x->type;
  type.dims[dim] *= mesh_->SizeOf(axes);
  return Collective(std::move(spec), {&x, 1}, {&type, 1})[0];
}

ir::Value* Emitter::ReduceScatter(ir::Value* x, collective::Reduction reduction, int64_t dim,
                                  const AxisList& axes) {
  if (axes.empty()) return x;
  if (!HasReduction(reduction, x->type.element)) {
    const int64_t tile = x->type.dims[dim] / mesh_->SizeOf(axes);
    return SliceTile(*this, GatherAndReduce(x, reduction, axes), static_cast<int>(dim), tile, axes);
  }
  collective::Spec spec;
  spec.kind = collective::Kind::kReduceScatter;
  spec.reduction = reduction;
  spec.dim0 = dim;
  spec.groups = GroupsOver(axes);
  ir::Type type = x->type;
  type.dims[dim] /= mesh_->SizeOf(axes);
  return Collective(std::move(spec), {&x, 1}, {&type, 1})[0];
}

ir::Value* Emitter::AllToAll(ir::Value* x, int64_t split_dim, int64_t concat_dim,
                             const AxisList& axes) {
  if (axes.empty()) return x;
  collective::Spec spec;
  spec.kind = collective::Kind::kAllToAll;
  spec.dim0 = split_dim;
  spec.dim1 = concat_dim;
  spec.groups = GroupsOver(axes);
  ir::Type type = x->type;
  type.dims[split_dim] /= mesh_->SizeOf(axes);
  type.dims[concat_dim] *= mesh_->SizeOf(axes);
  return Collective(std::move(spec), {&x, 1}, {&type, 1})[0];
}

ir::Value* Emitter::Permute(ir::Value* x, const AxisList& axes, Pairs pairs) {
  collective::Spec spec;
  spec.kind = collective::Kind::kCollectivePermute;
  spec.groups = GroupsOver(axes);
  spec.pairs = std::move(pairs);
  return Collective(std::move(spec), {&x, 1}, {&x->type, 1})[0];
}

ir::Value* Emitter::PermuteDevices(ir::Value* x, const Pairs& pairs) {
  collective::Spec spec;
  spec.kind = collective::Kind::kCollectivePermute;
  const int64_t n = mesh_->num_devices();
  Pairs everywhere;
  for (int64_t r = 0; r < num_replicas_; ++r) {
    for (auto [from, to] : pairs) everywhere.emplace_back(r * n + from, r * n + to);
  }
  SetPairs(spec, std::move(everywhere));
  return Collective(std::move(spec), {&x, 1}, {&x->type, 1})[0];
}

std::vector<ir::Value*> Emitter::Collective(collective::Spec spec,
                                            absl::Span<ir::Value* const> operands,
                                            absl::Span<const ir::Type> results) {
  if (backend_ == Backend::kFfi) {
    if (std::vector<ir::Value*> made = CollectiveInCarriers(spec, operands, results); !made.empty())
      return made;
  }
  spec.operands.clear();
  spec.results.clear();
  for (const ir::Value* v : operands) spec.operands.push_back(ShapedOf(v->type));
  for (const ir::Type& t : results) spec.results.push_back(ShapedOf(t));
  if (builder_.location() != nullptr) spec.location = builder_.location()->ToString();
  ir::Op* op = backend_ == Backend::kNative ? EmitNative(spec, operands, results)
                                            : EmitCall(operands, results);
  calls_.push_back({op, std::move(spec), cause_});
  return op->results;
}

std::vector<ir::Value*> Emitter::CollectiveInCarriers(const collective::Spec& spec,
                                                      absl::Span<ir::Value* const> operands,
                                                      absl::Span<const ir::Type> results) {
  const auto whole = [](const ir::Type& t) { return CarrierOf(t.element) == t.element; };
  if (std::all_of(results.begin(), results.end(), whole)) return {};
  std::vector<ir::Value*> carriers;
  std::vector<ir::Type> types(results.begin(), results.end());
  for (ir::Value* v : operands) {
    carriers.push_back(builder_.Convert(v, CarrierOf(v->type.element)));
  }
  for (ir::Type& t : types) t.element = CarrierOf(t.element);
  std::vector<ir::Value*> made = Collective(spec, carriers, types);
  for (size_t i = 0; i < made.size(); ++i) made[i] = builder_.Convert(made[i], results[i].element);
  return made;
}

std::vector<ir::Value*> Emitter::Together(const collective::Spec& like,
                                          absl::Span<ir::Value* const> operands,
                                          absl::Span<const ir::Type> results) {
  if (backend_ == Backend::kFfi) return Collective(like, operands, results);
  std::vector<ir::Value*> made;
  for (size_t i = 0; i < operands.size(); ++i) {
    made.push_back(Collective(like, {&operands[i], 1}, {&results[i], 1})[0]);
  }
  return made;
}

ir::Op* Emitter::EmitCall(absl::Span<ir::Value* const> operands,
                          absl::Span<const ir::Type> results) {
  ir::AttrDict attributes;
  ir::Set(attributes, "api_version", ir::TypedInt{ElementType::kI32, 4});
  ir::Set(attributes, "call_target_name", std::string(collective::kCustomCallTarget));
  ir::Set(attributes, "has_side_effect", true);
  std::vector<ir::Type> types;
  for (const ir::Value* v : operands) types.push_back(v->type);
  ir::Set(attributes, "operand_layouts", RowMajorLayouts(types));
  ir::Set(attributes, "result_layouts", RowMajorLayouts(results));
  return builder_.Create(ir::OpKind::kCustomCall, operands, results, std::move(attributes));
}

namespace {

void InOrder(const ir::Region& region, const absl::flat_hash_map<const ir::Op*, size_t>& calls,
             std::vector<size_t>& order) {
  for (const ir::Op* op : region.ops) {
    if (auto it = calls.find(op); it != calls.end()) order.push_back(it->second);
    for (const ir::Region* inner : op->regions) InOrder(*inner, calls, order);
  }
}

}  // namespace

// All collectives are calls of one target: XLA's texts and profiles tell them apart by this.
const ir::Location* Emitter::Named(const ir::Location* location, const std::string& what) {
  ir::Location named = *location;
  absl::StrAppend(&named.name, named.name.empty() ? "" : "/", what);
  return module_->AddLocation(std::move(named));
}

void Emitter::NumberSites() {
  absl::flat_hash_map<const ir::Op*, size_t> index;
  for (size_t i = 0; i < calls_.size(); ++i) index[calls_[i].op] = i;
  std::vector<size_t> order;
  InOrder(*body_, index, order);
  for (size_t i : order) {
    auto& [op, spec, cause] = calls_[i];
    spec.site = static_cast<int32_t>(specs_.size());
    if (backend_ == Backend::kFfi) {
      ir::AttrDict config;
      ir::Set(config, "op", CallText(spec));
      ir::Set(config, "site", ir::TypedInt{ElementType::kI32, spec.site});
      ir::Set(op->attributes, "backend_config",
              std::make_shared<const ir::AttrDict>(std::move(config)));
      op->location = Named(op->location, spec.FieldName());
    } else if (spec.kind != collective::Kind::kRaggedAllToAll) {
      ir::Set(op->attributes, "channel_id", int64_t{spec.site + 1});
      ir::Set(op->attributes, "channel_type", int64_t{1});
    }
    specs_.push_back(std::move(spec));
    causes_.push_back(std::move(cause));
  }
  calls_.clear();
}

bool Emitter::Finish() {
  for (ir::Op* op : prologue_->ops) op->parent = body_;
  body_->ops.insert(body_->ops.begin(), prologue_->ops.begin(), prologue_->ops.end());
  prologue_->ops.clear();
  NumberSites();
  if (place_ == nullptr || (ids_[0] == nullptr && ids_[1] == nullptr)) return false;
  place_->owner = body_;
  place_->index = static_cast<int>(body_->arguments.size());
  body_->arguments.push_back(place_);
  prologue_->arguments.clear();
  return true;
}

}  // namespace shardway::spmd
