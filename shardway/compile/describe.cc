#include "shardway/compile/describe.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"

namespace shardway::compile {
namespace {

void AppendBoundary(std::string& out, const char* what, size_t i, const Boundary& b) {
  absl::StrAppend(&out, "// ", what, " ", i, ": ", std::string(ElementTypeName(b.element)), "[",
                  absl::StrJoin(b.global_dims, ","), "] shard [", absl::StrJoin(b.local_dims, ","),
                  "] sharding ", absl::BytesToHexString(b.op_sharding),
                  b.donated ? " donated" : "");
  if (b.alias_result >= 0) absl::StrAppend(&out, " alias ", b.alias_result);
  out += '\n';
}

}  // namespace

absl::StatusOr<std::string> Describe(const Partitioned& program) {
  SHARDWAY_ASSIGN_OR_RETURN(const auto specs, collective::Parse(program.manifest));
  std::string out = program.text + "// ----\n";
  for (const auto& spec : specs) {
    absl::StrAppend(&out, "// site ", spec.site, ": ", spec.ToString(), " then ",
                    spec.work_after_us, " us, ", spec.location, "\n");
  }
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    AppendBoundary(out, "parameter", i, program.parameters[i]);
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    AppendBoundary(out, "result", i, program.results[i]);
  }
  absl::StrAppend(&out, "// place ", program.uses_coordinates ? 1 : 0, " constants ",
                  program.constants.size(), " flops ", program.flops_per_device, "\n");
  return out;
}

}  // namespace shardway::compile
