#include "shardway/compile/mesh_of_module.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/sharding/axis_placement.h"
#include "shardway/sharding/hlo_sharding.h"

namespace shardway::compile {
namespace {

using sharding::Stride;

class Collector {
 public:
  void Collect(const ir::Module& module) {
    for (const auto& [symbol, mesh] : module.meshes) Add(mesh);
    for (const ir::Function* f : module.functions()) {
      for (const ir::AttrDict& attrs : f->arg_attrs) Add(attrs);
      for (const ir::AttrDict& attrs : f->result_attrs) Add(attrs);
      Walk(*f->body);
    }
  }

  const std::vector<const ir::SdyMesh*>& meshes() const { return meshes_; }
  const std::vector<Stride>& pieces() const { return pieces_; }

 private:
  void Walk(const ir::Region& region) {
    for (const ir::Op* op : region.ops) {
      Add(op->attributes);
      for (const ir::Region* inner : op->regions) Walk(*inner);
    }
  }
  void Add(const ir::AttrDict& attributes) {
    for (const auto& [name, attribute] : attributes) {
      if (const auto* text = attribute.get_if<std::string>();
          text != nullptr && name == "mhlo.sharding") {
        auto parsed = sharding::ParseHloSharding(*text);  // faults are reported where it is used
        if (parsed.ok()) Add(*parsed);
      } else if (const auto* one = attribute.get_if<ir::SdySharding>()) {
        if (one->mesh) Add(*one->mesh);
      } else if (const auto* many = attribute.get_if<ir::SdyPerValue>()) {
        for (const auto& s : many->shardings) {
          if (s.mesh) Add(*s.mesh);
        }
      }
    }
  }
  void Add(const sharding::HloSharding& s) {
    if (auto strides = sharding::TileStrides(s)) {
      pieces_.insert(pieces_.end(), strides->begin(), strides->end());
    }
    for (const auto& element : s.elements) Add(element);
  }
  void Add(const ir::SdyMesh& mesh) {
    meshes_.push_back(&mesh);
    // Of an order of devices that is no pattern, the shape at least.
    auto strides = sharding::MeshStrides(mesh);
    if (!strides) strides = sharding::MeshStrides(ir::SdyMesh{mesh.axes, {}});
    if (strides) {
      for (const auto& axis : *strides) pieces_.insert(pieces_.end(), axis.begin(), axis.end());
    }
  }

  std::vector<Stride> pieces_;
  std::vector<const ir::SdyMesh*> meshes_;
};

}  // namespace

absl::StatusOr<sharding::Mesh> MeshOfModule(const ir::Module& module, int64_t num_partitions) {
  Collector collector;
  collector.Collect(module);
  SHARDWAY_ASSIGN_OR_RETURN(auto mesh, sharding::Mesh::Make(num_partitions, collector.pieces()));
  absl::flat_hash_set<std::string> seen;  // a mesh may stand in every attribute
  for (const ir::SdyMesh* named : collector.meshes()) {
    std::string key;
    for (const auto& axis : named->axes) absl::StrAppend(&key, axis.name, "=", axis.size, ",");
    if (named->axes.empty() || !seen.insert(key).second) continue;
    const auto placement =
        sharding::PlaceAxes(*named, mesh);  // faults are reported where it is used
    for (size_t i = 0; placement.ok() && i < named->axes.size(); ++i) {
      mesh.Name(named->axes[i].name, placement->axes[i]);
    }
  }
  return mesh;
}

}  // namespace shardway::compile
