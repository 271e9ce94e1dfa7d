#include "shardway/compile/annotations.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::compile {

using sharding::Annotation;

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
    if (text != nullptr && !text->empty()) {
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
