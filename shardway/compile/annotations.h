// The shardings that stand among the attributes of arguments, results and operators, in either
// notation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/sdy_sharding.h"
#include "shardway/sharding/sharding.h"

namespace shardway::compile {

// For each of some values what is annotated, if anything. Shorter than the values where nothing
// more is.
using Annotations = std::vector<std::optional<sharding::Annotation>>;

class AnnotationReader {
 public:
  // Both must outlive the reader.
  AnnotationReader(const ir::Module& module, const sharding::Mesh& mesh)
      : module_(module), mesh_(mesh), meshes_(&module, &mesh) {}

  // `sdy.sharding` or `mhlo.sharding` among the attributes of a value of this type; nullopt for
  // neither.
  absl::StatusOr<std::optional<sharding::Annotation>> Read(const ir::AttrDict& attributes,
                                                           const ir::Type& type) const;
  // Of sdy.sharding_constraint and sdy.reshard, which call it just `sharding`.
  absl::StatusOr<std::optional<sharding::Annotation>> OfConstraint(const ir::Op& op) const;

  // Of the results of an operator that stands in a region which is manual over these atoms; a
  // single mhlo.sharding is that of every result. Values that are no tensors have none, nor has
  // what is put on one device (DeviceOf): it is everywhere all the same. Faults name the operator,
  // the type and the line.
  absl::StatusOr<Annotations> OfResults(const ir::Op& op, sharding::AxisSet manual) const;
  // The same for a list of its own: in_shardings of operands, out_shardings of results. `what` the
  // values are, for faults ("operand").
  absl::StatusOr<Annotations> OfList(const ir::Op& op, std::string_view list,
                                     absl::Span<ir::Value* const> values, std::string_view what,
                                     sharding::AxisSet manual) const;
  // The device that an operator's first result is put on, or its effect where it has no results.
  std::optional<int64_t> DeviceOf(const ir::Op& op) const;
  // INVALID_ARGUMENT for a sharding that splits over atoms over which the region around is manual:
  // there each device has another value already.
  absl::Status CheckManual(const sharding::Annotation& annotation, sharding::AxisSet manual) const;

  // INVALID_ARGUMENT where a dimension does not divide by the axes that split it: arguments and
  // results of a program have shards of one size.
  absl::Status CheckDivides(const sharding::Annotation& annotation, const ir::Type& type) const;

  const sharding::SdyMeshes& meshes() const { return meshes_; }

 private:
  absl::Status Add(absl::StatusOr<sharding::Annotation> read, const ir::Value& v,
                   const std::string& what, const ir::Op& op, sharding::AxisSet manual,
                   Annotations& to) const;

  const ir::Module& module_;
  const sharding::Mesh& mesh_;
  sharding::SdyMeshes meshes_;
};

// "unspecified_dims=[0,1]", the configuration of a Sharding custom call: one bit for each dimension
// that propagation may split.
uint32_t UnspecifiedDims(std::string_view backend_config);

// Parts of a sum enter and leave programs and manual regions as they are (spmd/unreduced.h).
// UNIMPLEMENTED where they are of another reduction: inside a program such a value is the whole all
// the same, at these borders the parts would show.
absl::Status CheckSum(const ir::SdySharding& sharding);
absl::Status CheckSum(const ir::AttrDict& attributes);  // where they have sdy.sharding

// The same fault, with what it is about and where.
absl::Status At(const absl::Status& status, const std::string& what, const ir::Location* location);

}  // namespace shardway::compile
