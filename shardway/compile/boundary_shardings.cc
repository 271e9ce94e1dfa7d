#include "shardway/compile/boundary_shardings.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shardway/base/status_macros.h"

namespace shardway::compile {
namespace {

constexpr int64_t kMaxDevices = 1 << 20;

class Parser {
 public:
  Parser(std::string_view text, const ir::SdyMesh& mesh) : text_(text), mesh_(mesh) {}

  absl::StatusOr<std::vector<std::optional<ir::SdySharding>>> Parse() {
    std::vector<std::optional<ir::SdySharding>> list;
    for (Skip(); at_ < text_.size(); Skip()) {
      if (Take('-')) {
        list.emplace_back();
        continue;
      }
      SHARDWAY_ASSIGN_OR_RETURN(ir::SdySharding sharding, ParseSharding());
      list.emplace_back(std::move(sharding));
    }
    return list;
  }

 private:
  absl::StatusOr<ir::SdySharding> ParseSharding() {
    ir::SdySharding sharding;
    sharding.mesh = mesh_;
    if (!Take('[')) return Fault("'[' or '-'");
    if (Take(']')) return sharding;
    do {
      SHARDWAY_RETURN_IF_ERROR(ParseDim(sharding.dims.emplace_back()));
    } while (Take(','));
    if (!Take(']')) return Fault("',' or ']'");
    return sharding;
  }

  absl::Status ParseDim(ir::SdyDimSharding& dim) {
    if (!Take('{')) return Fault("'{'");
    if (!Peek('}')) {
      do {
        dim.closed = !Take('?');
        if (dim.closed) SHARDWAY_RETURN_IF_ERROR(ParseAxis(dim.axes.emplace_back()));
      } while (dim.closed && Take(','));
    }
    if (!Take('}')) return Fault(dim.closed ? "',' or '}'" : "'}', since '?' comes last");
    if (!Take('p')) return absl::OkStatus();
    if (dim.closed && dim.axes.empty()) {
      return Fault("no priority for a dimension that is closed and not split");
    }
    SHARDWAY_ASSIGN_OR_RETURN(dim.priority, Integer(0));
    return absl::OkStatus();
  }

  absl::Status ParseAxis(ir::SdyAxisRef& axis) {
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      axis.name += text_[at_++];
    }
    if (axis.name.empty()) return Fault("the name of an axis");
    return Take(':') ? ParseSubAxis(axis) : absl::OkStatus();
  }

  absl::Status ParseSubAxis(ir::SdyAxisRef& axis) {
    if (!Take('(')) return Fault("'('");
    SHARDWAY_ASSIGN_OR_RETURN(const int64_t before, Integer(1));
    if (!Take(')')) return Fault("')'");
    SHARDWAY_ASSIGN_OR_RETURN(const int64_t size, Integer(1));
    axis.sub_axis = {before, size};
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Integer(int64_t least) {
    Skip();
    int64_t value = 0;
    const size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
           at_ - begin < 9) {
      value = 10 * value + (text_[at_++] - '0');
    }
    if (at_ == begin || value < least) return Fault(least > 0 ? "a positive number" : "a number");
    return value;
  }

  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Peek(char c) {
    Skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    ++at_;
    Skip();
    return true;
  }
  absl::Status Fault(std::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat("shardings \"", std::string(text_),
                                                   "\": expected ", std::string(expected),
                                                   " at offset ", at_));
  }

  std::string_view text_;
  const ir::SdyMesh& mesh_;
  size_t at_ = 0;
};

absl::Status Apply(std::string_view text, const ir::SdyMesh& mesh, const char* what, size_t count,
                   std::vector<ir::AttrDict>& attributes) {
  SHARDWAY_ASSIGN_OR_RETURN(auto shardings, Parser(text, mesh).Parse());
  if (shardings.size() > count) {
    return absl::InvalidArgumentError(absl::StrCat(shardings.size(), " shardings for the ", count,
                                                   " ", what, "s of the program"));
  }
  attributes.resize(count);
  for (size_t i = 0; i < shardings.size(); ++i) {
    if (!shardings[i]) continue;
    ir::Erase(attributes[i], "mhlo.sharding");
    ir::Set(attributes[i], "sdy.sharding", *std::move(shardings[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ir::SdyMesh> ParseMesh(std::string_view text) {
  ir::SdyMesh mesh;
  const auto fault = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh \"", std::string(text), "\": ", std::string(what),
                     "; it is written as x=4,y=2, sizes of axes from major to minor"));
  };
  int64_t devices = 1;
  for (const auto piece : absl::StrSplit(std::string(text), ',')) {
    const std::string axis(piece);
    const size_t equals = axis.find('=');
    if (equals == std::string::npos || equals == 0) return fault("an axis lacks its size");
    const std::string name = axis.substr(0, equals);
    const std::string number = axis.substr(equals + 1);
    int64_t size = 0;
    for (char c : number) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) return fault("a size is no number");
      size = 10 * size + (c - '0');
      if (size > kMaxDevices) return fault("too many devices");
    }
    if (size < 1) return fault("a size is not positive");
    const bool again = std::any_of(mesh.axes.begin(), mesh.axes.end(),
                                   [&](const auto& other) { return other.name == name; });
    if (again) return fault("an axis is named twice");
    mesh.axes.push_back({name, size});
    if (size > kMaxDevices / devices) return fault("too many devices");
    devices *= size;
  }
  return mesh;
}

absl::Status SetBoundaryShardings(ir::Module& module, const ir::SdyMesh& mesh,
                                  std::string_view arguments, std::string_view results) {
  ir::Function* main = module.main();
  if (main == nullptr) return absl::InvalidArgumentError("the program has no function main");
  SHARDWAY_RETURN_IF_ERROR(
      Apply(arguments, mesh, "argument", main->arguments().size(), main->arg_attrs));
  return Apply(results, mesh, "result", main->result_types.size(), main->result_attrs);
}

int64_t PartitionsOf(const ir::Module& module) {
  if (const ir::Attribute* a = ir::Find(module.attributes, "mhlo.num_partitions")) {
    if (const auto* typed = a->get_if<ir::TypedInt>(); typed != nullptr && typed->value > 1) {
      return typed->value;
    }
  }
  int64_t devices = 1;
  for (const auto& [name, mesh] : module.meshes) {
    if (mesh.axes.empty()) continue;
    for (const auto& axis : mesh.axes) {
      if (axis.size < 1 || axis.size > kMaxDevices / devices) return 1;
      devices *= axis.size;
    }
    return devices;
  }
  return devices;
}

}  // namespace shardway::compile
