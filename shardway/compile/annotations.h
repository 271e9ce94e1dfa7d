// The shardings that stand among the attributes of arguments, results and operators, in either
// notation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardway/ir/module.h"
#include "shardway/sharding/sdy_sharding.h"
#include "shardway/sharding/sharding.h"

namespace shardway::compile {

class AnnotationReader {
 public:
  // Both must outlive the reader.
  AnnotationReader(const ir::Module& module, const sharding::Mesh& mesh)
      : mesh_(mesh), meshes_(&module, &mesh) {}

  // `sdy.sharding` or `mhlo.sharding` among the attributes of a value of this type; nullopt for
  // neither.
  absl::StatusOr<std::optional<sharding::Annotation>> Read(const ir::AttrDict& attributes,
                                                           const ir::Type& type) const;
  // Of sdy.sharding_constraint and sdy.reshard, which call it just `sharding`.
  absl::StatusOr<std::optional<sharding::Annotation>> OfConstraint(const ir::Op& op) const;

  const sharding::SdyMeshes& meshes() const { return meshes_; }

 private:
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
