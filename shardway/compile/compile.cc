#include "shardway/compile/compile.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/collective/spec.h"
#include "shardway/compile/boundary_shardings.h"
#include "shardway/compile/explanation.h"
#include "shardway/compile/flatten.h"
#include "shardway/compile/hidden_constants.h"
#include "shardway/compile/inspections.h"
#include "shardway/compile/observer.h"
#include "shardway/compile/work_estimate.h"
#include "shardway/ir/artifact_reader.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"
#include "shardway/sharding/hlo_sharding.h"
#include "shardway/spmd/expand_operators.h"
#include "shardway/spmd/partial_sort.h"
#include "shardway/spmd/partitioner.h"
#include "shardway/spmd/propagation.h"
#include "shardway/spmd/send_recv.h"
#include "shardway/spmd/turn_sorts.h"

namespace shardway::compile {
namespace {

using spmd::Sharding;

// Propagation may have split an argument or a result as JAX cannot say: it takes only sizes that
// divide and, where it did not choose the split itself, only whole axes of its meshes.
void SettleBoundary(const ir::Value* v, const spmd::Program& program, Sharding& sharding) {
  if (!v->type.is_tensor()) return;
  const sharding::Mesh& mesh = program.mesh;
  const auto annotation = program.annotations.find(v->id);
  const bool chosen = annotation != program.annotations.end() && annotation->second.open == 0;
  for (int d = 0; d < sharding.rank(); ++d) {
    auto& axes = sharding.dims[d];
    while (!axes.empty() && v->type.dims[d] % mesh.SizeOf(axes) != 0) axes.pop_back();
    if (!chosen) axes = mesh.WholeAxes(axes);
  }
}

Boundary Describe(const ir::Value* v, const std::vector<Sharding>& shardings,
                  const spmd::Program& program, const ir::AttrDict& attributes) {
  const ir::Type& type = v->type;
  const Sharding& sharding = shardings[v->id];
  Boundary boundary;
  if (const ir::Attribute* kind = ir::Find(attributes, "mhlo.memory_kind")) {
    if (const auto* name = kind->get_if<std::string>()) boundary.memory_kind = *name;
  }
  if (!type.is_tensor()) {
    boundary.is_token = true;
    boundary.element = ElementType::kI1;
    boundary.global_dims = boundary.local_dims = {0};
    return boundary;
  }
  const ir::Type local = sharding::LocalType(type, sharding, program.mesh);
  boundary.element = type.element;
  boundary.global_dims.assign(type.dims.begin(), type.dims.end());
  boundary.local_dims.assign(local.dims.begin(), local.dims.end());
  boundary.op_sharding = sharding::ToOpShardingBytes(sharding, program.mesh, program.order_of(v),
                                                     program.unreduced_of(v));
  return boundary;
}

std::optional<int64_t> IntAttribute(const ir::AttrDict& attributes, std::string_view name) {
  const ir::Attribute* a = ir::Find(attributes, name);
  if (a == nullptr) return std::nullopt;
  if (const auto* i = a->get_if<int64_t>()) return *i;
  if (const auto* i = a->get_if<ir::TypedInt>()) return i->value;
  return std::nullopt;
}

int64_t LocalBytes(const Boundary& boundary) {
  int64_t bytes = ElementBytes(boundary.element);
  for (const int64_t dim : boundary.local_dims) bytes *= dim;
  return bytes;
}

// Donated parameters and the results that may have their memory: what JAX paired itself, then, for
// donors without a partner, the first result of the same shard that is still free, then one of as
// many bytes (donated as XLA would, though the memory is not handed on). Who finds none is no
// donor.
void PairDonations(const ir::Function& main, Partitioned& out) {
  std::vector<bool> taken(out.results.size());
  std::vector<bool> unpaired(out.parameters.size());
  for (size_t i = 0; i < out.parameters.size(); ++i) {
    Boundary& p = out.parameters[i];
    if (auto result = IntAttribute(main.arg_attrs[i], "tf.aliasing_output")) {
      p.donated = true;
      if (*result >= 0 && *result < static_cast<int64_t>(taken.size()) && !taken[*result] &&
          out.results[*result].local_dims == p.local_dims &&
          out.results[*result].element == p.element) {
        p.alias_result = static_cast<int>(*result);
        taken[*result] = true;
      }
    }
    const ir::Attribute* donor = ir::Find(main.arg_attrs[i], "jax.buffer_donor");
    const bool* flag = donor != nullptr ? donor->get_if<bool>() : nullptr;
    unpaired[i] = !p.donated && flag != nullptr && *flag;
    p.donated |= unpaired[i];
  }
  const auto pair = [&](const auto& fits) {  // each with the first free result that `fits` takes
    for (size_t i = 0; i < out.parameters.size(); ++i) {
      const Boundary& p = out.parameters[i];
      if (!p.donated || p.alias_result >= 0 || p.is_token) continue;
      for (size_t r = 0; r < taken.size(); ++r) {
        if (taken[r] || out.results[r].memory_kind != p.memory_kind || !fits(i, r)) continue;
        taken[r] = true;
        break;
      }
    }
  };
  pair([&](size_t i, size_t r) {
    Boundary& p = out.parameters[i];
    if (out.results[r].local_dims != p.local_dims || out.results[r].element != p.element) {
      return false;
    }
    p.alias_result = static_cast<int>(r);
    unpaired[i] = false;
    return true;
  });
  pair([&](size_t i, size_t r) {
    if (!unpaired[i] || LocalBytes(out.results[r]) != LocalBytes(out.parameters[i])) return false;
    unpaired[i] = false;
    return true;
  });
  for (size_t i = 0; i < unpaired.size(); ++i) {
    if (unpaired[i] && !out.parameters[i].is_token) out.parameters[i].donated = false;
  }
}

void WriteAliases(const std::vector<Boundary>& parameters, ir::Function& main) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].alias_result < 0) continue;
    ir::Set(main.arg_attrs[i], "tf.aliasing_output",
            ir::TypedInt{ElementType::kI32, parameters[i].alias_result});
  }
}

absl::Status CheckRequest(const Request& request) {
  if (request.num_replicas < 1 || request.num_partitions < 1 ||
      request.num_replicas > (1 << 20) / request.num_partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.num_replicas, " replicas of ", request.num_partitions, " partitions"));
  }
  const auto placed = static_cast<int64_t>(request.places.size());
  if (placed != 0 && placed != request.num_replicas * request.num_partitions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the places of ", placed, " devices were given for a program for ", request.num_replicas,
        " x ", request.num_partitions, ": give one for each device, or none"));
  }
  return absl::OkStatus();
}

// For people: with lines, without large constants.
std::string TextForPeople(const ir::Module& module) {
  constexpr size_t kMaxConstantBytes = 256;
  ir::TextOptions text;
  text.locations = ir::Locations::kInline;
  text.max_constant_bytes = kMaxConstantBytes;
  return ir::WriteText(module, text);
}

void Show(const Options& options, std::string_view stage, const ir::Module& module) {
  if (options.observer == nullptr) return;
  options.observer->OnStage(module.name, stage, TextForPeople(module));
}

// Shows the passes over the per-device program, those that change nothing aside.
std::function<void(std::string_view, const ir::Module&)> ShowPasses(const Options& options) {
  if (options.observer == nullptr) return nullptr;
  return [observer = options.observer, number = 0, last = std::string()](
             std::string_view pass, const ir::Module& module) mutable {
    std::string text = TextForPeople(module);
    const std::string stage = absl::StrCat("4.", number++, "-", std::string(pass), ".mlir");
    if (text == last) return;
    observer->OnStage(module.name, stage, text);
    last = std::move(text);
  };
}

template <class Choice>
absl::StatusOr<Choice> ChoiceOf(std::string_view asked, std::string_view what,
                                std::string_view said_with) {
  if (asked.empty() || asked == "auto") return Choice::kAuto;
  if (asked == "always") return Choice::kAlways;
  if (asked == "never") return Choice::kNever;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), ": \"", std::string(asked),
                   "\" is none of auto, always and never; say one with ", std::string(said_with)));
}

// Shardings in the form in which Shardy passes through HLO, as text in frontend attributes, are not
// read; a program must not lose them without a word.
absl::Status CheckNoRoundTripForm(const ir::Module& module) {
  const auto* frontend = ir::Find(module.attributes, "mhlo.frontend_attributes");
  const auto* dict =
      frontend != nullptr ? frontend->get_if<std::shared_ptr<const ir::AttrDict>>() : nullptr;
  if (dict == nullptr || ir::Find(**dict, "xla.sdy.meshes") == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "the program's shardings are in the form in which Shardy passes through HLO "
      "(mhlo.frontend_attributes with xla.sdy.meshes); give it with the sdy dialect, as jax.export "
      "writes it, or with mhlo.sharding");
}

// Reads the program, and settles how many partitions it is for.
absl::StatusOr<std::unique_ptr<ir::Module>> Import(Request& request, const Options& options) {
  if (request.artifact == nullptr) return absl::InvalidArgumentError("no program to compile");
  SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, ir::ReadArtifact(request.artifact));
  SHARDWAY_RETURN_IF_ERROR(CheckNoRoundTripForm(*module));
  if (!options.mesh.empty()) {
    SHARDWAY_ASSIGN_OR_RETURN(const ir::SdyMesh mesh, ParseMesh(options.mesh));
    SHARDWAY_RETURN_IF_ERROR(
        SetBoundaryShardings(*module, mesh, options.in_shardings, options.out_shardings));
    request.num_partitions = 1;
    for (const auto& axis : mesh.axes) request.num_partitions *= axis.size;
  } else if (!options.in_shardings.empty() || !options.out_shardings.empty()) {
    return absl::InvalidArgumentError("shardings for a program need a mesh (x=4,y=2)");
  } else if (request.num_partitions == 0) {
    request.num_partitions = PartitionsOf(*module);
  }
  SHARDWAY_RETURN_IF_ERROR(CheckRequest(request));
  Show(options, "1-imported.mlir", *module);
  SHARDWAY_RETURN_IF_ERROR(ir::Verify(*module));
  return module;
}

}  // namespace

absl::StatusOr<Partitioned> Compile(const Request& request) {
  const std::unique_ptr<Observer> observer = ObserverFromEnvironment();
  Options options;
  options.observer = observer.get();
  if (const char* when = std::getenv("SHARDWAY_WINDOWED_EINSUM")) options.windowed_einsum = when;
  if (const char* when = std::getenv("SHARDWAY_ISLAND_STEPS")) options.island_steps = when;
  return CompileWith(request, options);
}

absl::StatusOr<Partitioned> CompileWith(const Request& asked, const Options& options) {
  Request request = asked;
  SHARDWAY_ASSIGN_OR_RETURN(
      const auto windowed_einsum,
      ChoiceOf<spmd::WindowedEinsum>(options.windowed_einsum, "windowed einsum",
                                     "--windowed-einsum or SHARDWAY_WINDOWED_EINSUM"));
  SHARDWAY_ASSIGN_OR_RETURN(const auto island_steps,
                            ChoiceOf<spmd::IslandSteps>(options.island_steps, "island steps",
                                                        "--island-steps or SHARDWAY_ISLAND_STEPS"));
  SHARDWAY_ASSIGN_OR_RETURN(std::unique_ptr<ir::Module> module, Import(request, options));
  SHARDWAY_ASSIGN_OR_RETURN(spmd::Program program, Flatten(*module, request));
  program.mesh.SetPlaces(request.places, request.link_prices);
  Show(options, "2-flat.mlir", *program.module);
  SHARDWAY_RETURN_IF_ERROR(spmd::ExpandOperators(program));
  SHARDWAY_RETURN_IF_ERROR(spmd::PairTransfers(program));
  spmd::TurnSorts(program);
  spmd::ShortenSorts(program);
  const ir::Function& main = *program.module->main();
  const spmd::Rules rules(program);
  const bool explain = options.explain || options.observer != nullptr;
  spmd::Decisions decisions;
  std::vector<Sharding> shardings = Propagate(program, rules, explain ? &decisions : nullptr);
  const std::vector<ir::Value*>& returned = main.body->terminator()->operands;
  for (const ir::Value* v : main.arguments()) SettleBoundary(v, program, shardings[v->id]);
  for (const ir::Value* v : returned) SettleBoundary(v, program, shardings[v->id]);
  if (options.observer != nullptr) {
    options.observer->OnStage(module->name, "3-propagated.mlir",
                              WriteWithShardings(program, shardings));
  }
  std::vector<Inspection> inspections = TakeInspections(program, shardings);
  SHARDWAY_ASSIGN_OR_RETURN(
      spmd::PerDevice device,
      Partition(program, rules, shardings,
                {options.native ? spmd::Backend::kNative : spmd::Backend::kFfi,
                 options.poison_padding, windowed_einsum, island_steps, ShowPasses(options)}));
  Show(options, "4-partitioned.mlir", *device.module);

  Partitioned out;
  if (explain) out.explanation = Explain(program, shardings, decisions, device);
  out.name = program.module->name;
  out.inspections = std::move(inspections);
  out.num_replicas = request.num_replicas;
  out.num_partitions = request.num_partitions;
  out.uses_coordinates = device.uses_place;
  for (size_t i = 0; i < main.arguments().size(); ++i) {
    out.parameters.push_back(Describe(main.arguments()[i], shardings, program, main.arg_attrs[i]));
  }
  for (size_t i = 0; i < returned.size(); ++i) {
    out.results.push_back(Describe(returned[i], shardings, program, main.result_attrs[i]));
  }
  PairDonations(main, out);
  if (!options.native) out.constants = HoistConstants(*device.module);
  WriteAliases(out.parameters, *device.module->main());
  out.flops_per_device = EstimateWork(*device.module, device.collectives);
  out.num_collectives = static_cast<int>(device.collectives.size());
  out.manifest = collective::Serialize(device.collectives);
  ir::Set(device.module->attributes, "mhlo.num_partitions",
          ir::TypedInt{ElementType::kI32, options.native ? request.num_partitions : 1});
  ir::Set(device.module->attributes, "mhlo.num_replicas",
          ir::TypedInt{ElementType::kI32, options.native ? request.num_replicas : 1});
  ir::TextOptions text;
  text.sdy = false;
  if (options.locations) text.locations = ir::Locations::kTable;
  out.text = ir::WriteText(*device.module, text);
  if (options.observer != nullptr) {
    options.observer->OnStage(out.name, "5-device.mlir", out.text);
    options.observer->OnStage(out.name, "explanation.json", out.explanation);
  }
  return out;
}

}  // namespace shardway::compile
