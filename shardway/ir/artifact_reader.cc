#include "shardway/ir/artifact_reader.h"

#include <charconv>
#include <utility>

#include "shardway/ir/bytecode/module_reader.h"
#include "shardway/ir/bytecode/pool.h"
#include "shardway/ir/bytecode/sections.h"

namespace shardway::ir {
namespace {

constexpr std::string_view kProducer = "StableHLO_v";
constexpr int kNewestMajor = 1;
constexpr int kNewestMinor = 20;

// "StableHLO_v1.17.0" must be ours or older.
void CheckProducer(std::string_view producer, bytecode::ErrorSink& errors) {
  if (!producer.starts_with(kProducer)) {
    return errors.Invalid("its producer is not StableHLO: it is no portable artifact");
  }
  const std::string_view version = producer.substr(kProducer.size());
  int major = 0;
  int minor = 0;
  const char* end = version.data() + version.size();
  const auto dot = std::from_chars(version.data(), end, major);
  if (dot.ec != std::errc() || dot.ptr == end || *dot.ptr != '.' ||
      std::from_chars(dot.ptr + 1, end, minor).ec != std::errc()) {
    return errors.Invalid("its version is unreadable");
  }
  if (major > kNewestMajor || (major == kNewestMajor && minor > kNewestMinor)) {
    errors.Unimplemented(absl::StrCat("version ", major, ".", minor, "; the newest known is ",
                                      kNewestMajor, ".", kNewestMinor));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> ReadArtifact(std::shared_ptr<const std::string> artifact) {
  bytecode::ErrorSink errors;
  const bytecode::Sections sections = bytecode::ReadSections(*artifact, &errors);
  if (errors.ok()) CheckProducer(sections.producer, errors);
  if (!errors.ok()) return errors.status();

  auto module = std::make_unique<Module>();
  module->KeepAlive(artifact);
  bytecode::Pool pool(&sections, artifact, module.get(), &errors);
  bytecode::ModuleReader(&sections, &pool, module.get(), &errors).Read();
  if (!errors.ok()) return errors.status();
  return module;
}

}  // namespace shardway::ir
