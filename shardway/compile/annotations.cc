#include "shardway/compile/annotations.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::compile {

using sharding::Annotation;
using sharding::AxisSet;

absl::Status At(const absl::Status& status, const std::string& what, const ir::Location* location) {
  const bool known = location != nullptr && !(location->file.empty() && location->name.empty());
  return absl::Status(status.code(),
                      absl::StrCat(what, known ? " at " : "", known ? location->ToString() : "",
                                   ": ", std::string(status.message())));
}

absl::Status CheckSum(const ir::SdySharding& sharding) {
  if (sharding.unreduced.empty() || sharding.is_sum()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "it is unreduced over the axis \"", sharding.unreduced[0].name,
      "\" by another reduction than a sum: reduce it before it leaves the program or the manual "
      "region"));
}

absl::Status CheckSum(const ir::AttrDict& attributes) {
  const ir::Attribute* a = ir::Find(attributes, "sdy.sharding");
  const auto* sharding = a != nullptr ? a->get_if<ir::SdySharding>() : nullptr;
  return sharding != nullptr ? CheckSum(*sharding) : absl::OkStatus();
}

absl::StatusOr<std::optional<Annotation>> AnnotationReader::Read(const ir::AttrDict& attributes,
                                                                 const ir::Type& type) const {
  if (const ir::Attribute* a = ir::Find(attributes, "sdy.sharding")) {
    const auto* sdy = a->get_if<ir::SdySharding>();
    const auto* many = a->get_if<ir::SdyPerValue>();
    if (many != nullptr && many->shardings.size() == 1) sdy = &many->shardings[0];
    if (sdy != nullptr) {
      SHARDWAY_ASSIGN_OR_RETURN(Annotation annotation, meshes_.ToAnnotation(*sdy, type.rank()));
      return std::make_optional(std::move(annotation));
    }
  }
  if (const ir::Attribute* a = ir::Find(attributes, "mhlo.sharding")) {
    const auto* text = a->get_if<std::string>();
    if (text != nullptr) {
      SHARDWAY_ASSIGN_OR_RETURN(sharding::HloSharding parsed, sharding::ParseHloSharding(*text));
      SHARDWAY_ASSIGN_OR_RETURN(Annotation annotation,
                                sharding::ToAnnotation(parsed, type.rank(), mesh_));
      return std::make_optional(std::move(annotation));
    }
  }
  return std::optional<Annotation>();
}

absl::StatusOr<std::optional<Annotation>> AnnotationReader::OfConstraint(const ir::Op& op) const {
  ir::AttrDict attributes;
  for (std::string_view name : {"sharding", "sdy.sharding"}) {
    if (const ir::Attribute* a = op.Find(name)) ir::Set(attributes, "sdy.sharding", *a);
  }
  return Read(attributes, op.result()->type);
}

namespace {

const std::vector<ir::SdySharding>* PerValue(const ir::Op& op, std::string_view name) {
  const ir::Attribute* a = op.Find(name);
  const auto* values = a != nullptr ? a->get_if<ir::SdyPerValue>() : nullptr;
  return values != nullptr ? &values->shardings : nullptr;
}

bool HasHloText(const ir::Op& op) { return op.Find("mhlo.sharding") != nullptr; }
std::string_view HloTextOf(const ir::Op& op) { return op.String("mhlo.sharding"); }

}  // namespace

absl::Status AnnotationReader::CheckManual(const Annotation& annotation, AxisSet manual) const {
  const AxisSet both = annotation.sharding.used() & manual;
  if (both == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "it is split over ", mesh_.ToString(mesh_.ToList(both)),
      ", over which the manual region around it is already; leave that to the region's own "
      "shardings"));
}

absl::Status AnnotationReader::CheckDivides(const Annotation& annotation,
                                            const ir::Type& type) const {
  for (int d = 0; type.is_tensor() && d < type.rank(); ++d) {
    const sharding::AxisList& axes = annotation.sharding.dims[d];
    if (type.dims[d] % mesh_.SizeOf(axes) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension ", d, " of size ", type.dims[d], " is split over ", mesh_.ToString(axes),
        " of size ", mesh_.SizeOf(axes),
        ", which does not divide it; arguments and results of a program have shards of one size: "
        "pad it, or constrain the value inside the program, where sizes need not divide"));
  }
  return absl::OkStatus();
}

absl::Status AnnotationReader::Add(absl::StatusOr<Annotation> read, const ir::Value& v,
                                   const std::string& what, const ir::Op& op, AxisSet manual,
                                   Annotations& to) const {
  absl::Status fault = read.status();
  if (fault.ok()) fault = CheckManual(*read, manual);
  if (!fault.ok()) return At(fault, absl::StrCat(what, " of a ", v.type.ToString()), op.location);
  to.emplace_back();
  if (!read->maximal) to.back() = *std::move(read);
  return absl::OkStatus();
}

absl::StatusOr<Annotations> AnnotationReader::OfList(const ir::Op& op, std::string_view list,
                                                     absl::Span<ir::Value* const> values,
                                                     std::string_view what, AxisSet manual) const {
  Annotations found;
  const auto* shardings = PerValue(op, list);
  if (shardings == nullptr) return found;
  for (size_t i = 0; i < shardings->size() && i < values.size(); ++i) {
    const ir::Value& v = *values[i];
    if (!v.type.is_tensor()) {
      found.emplace_back();
      continue;
    }
    SHARDWAY_RETURN_IF_ERROR(Add(meshes_.ToAnnotation((*shardings)[i], v.type.rank()), v,
                                 std::string(what), op, manual, found));
  }
  return found;
}

absl::StatusOr<Annotations> AnnotationReader::OfResults(const ir::Op& op, AxisSet manual) const {
  if (op.Find("sdy.sharding") == nullptr && !HasHloText(op)) return Annotations();
  const std::string what = absl::StrCat("the sharding of ", std::string(ir::OpKindName(op.kind)));
  if (PerValue(op, "sdy.sharding") != nullptr) {
    return OfList(op, "sdy.sharding", op.results, what, manual);
  }
  Annotations found;
  if (!HasHloText(op)) return found;
  auto parsed = sharding::ParseHloSharding(HloTextOf(op));
  if (!parsed.ok()) return At(parsed.status(), what, op.location);
  const bool tuple = parsed->kind == sharding::HloSharding::Kind::kTuple;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::Value& v = *op.results[i];
    if (!v.type.is_tensor()) {
      found.emplace_back();
      continue;
    }
    if (tuple && parsed->elements.size() != op.results.size()) {
      return At(absl::InvalidArgumentError(absl::StrCat(parsed->elements.size(), " shardings for ",
                                                        op.results.size(), " results")),
                what, op.location);
    }
    SHARDWAY_RETURN_IF_ERROR(
        Add(sharding::ToAnnotation(tuple ? parsed->elements[i] : *parsed, v.type.rank(), mesh_), v,
            what, op, manual, found));
  }
  return found;
}

std::optional<int64_t> AnnotationReader::DeviceOf(const ir::Op& op) const {
  if (const auto* shardings = PerValue(op, "sdy.sharding")) {
    for (const ir::SdySharding& one : *shardings) {
      const ir::SdyMesh* mesh = one.mesh ? &*one.mesh : module_.FindMesh(one.mesh_name);
      if (mesh != nullptr && mesh->axes.empty() && !mesh->device_ids.empty()) {
        return mesh->device_ids[0];
      }
    }
    return std::nullopt;
  }
  const auto parsed = sharding::ParseHloSharding(HloTextOf(op));
  if (!parsed.ok()) return std::nullopt;  // reported by OfResults
  const bool tuple =
      parsed->kind == sharding::HloSharding::Kind::kTuple && !parsed->elements.empty();
  const sharding::HloSharding& first = tuple ? parsed->elements[0] : *parsed;
  if (first.kind != sharding::HloSharding::Kind::kMaximal) return std::nullopt;
  return first.device;
}

uint32_t UnspecifiedDims(std::string_view backend_config) {
  constexpr std::string_view kKey = "unspecified_dims=[";
  const size_t begin = backend_config.find(kKey);
  if (begin == std::string_view::npos) return 0;
  std::string_view list = backend_config.substr(begin + kKey.size());
  list = list.substr(0, list.find(']'));
  uint32_t open = 0;
  for (const auto piece : absl::StrSplit(std::string(list), ',')) {
    const int d = std::atoi(std::string(piece).c_str());
    if (d >= 0 && d < 32) open |= uint32_t{1} << d;
  }
  return open;
}

}  // namespace shardway::compile
