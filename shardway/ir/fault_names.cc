#include "shardway/ir/fault_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardway::ir {
namespace {

bool HasFile(const Location* location) { return location != nullptr && !location->file.empty(); }

std::string Name(const char* what, size_t i, const std::string& name, const Type& type,
                 const Location* location) {
  std::string text =
      absl::StrCat(what, " ", i, " (", name, name.empty() ? "" : ": ", type.ToString(), ")");
  if (HasFile(location)) absl::StrAppend(&text, " at ", location->ToString());
  return text;
}

}  // namespace

std::string NameOfArgument(const Function& function, size_t i) {
  const Value& v = *function.arguments()[i];
  if (v.location == nullptr) return Name("argument", i, "", v.type, function.location);
  Location here = *v.location;
  here.name.clear();  // it stands before the type
  return Name("argument", i, v.location->name, v.type, HasFile(&here) ? &here : function.location);
}

std::string NameOfResult(const Function& function, size_t i) {
  const Attribute* info = i < function.result_attrs.size()
                              ? Find(function.result_attrs[i], "jax.result_info")
                              : nullptr;
  const auto* name = info != nullptr ? info->get_if<std::string>() : nullptr;
  return Name("result", i, name != nullptr ? *name : "", function.result_types[i],
              function.location);
}

std::string NameOfAxes(const SdyMesh& mesh) {
  return absl::StrJoin(mesh.axes, ",", [](std::string* out, const SdyMesh::Axis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
}

std::string NameOfAxis(const SdyAxisRef& axis) {
  if (!axis.sub_axis) return absl::StrCat("\"", axis.name, "\"");
  const auto [before, size] = *axis.sub_axis;
  return absl::StrCat("\"", axis.name, ":(", before, ")", size, "\"");
}

}  // namespace shardway::ir
