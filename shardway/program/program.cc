#include "shardway/program/program.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::program {
namespace {

ArrayLayoutPtr LayoutOf(const compile::Boundary& boundary, const topology::Slice* slice) {
  auto layout = std::make_shared<ArrayLayout>();
  layout->element = boundary.element;
  layout->shard_dims = boundary.local_dims;
  layout->slice = slice;
  layout->shard_bytes = ElementBytes(boundary.element);
  for (int64_t dim : boundary.local_dims) {
    layout->shard_bytes *= dim;
  }
  return layout;
}

}  // namespace

absl::Status PlacedProgram::CheckArgument(int index, const ArrayLayout& argument) const {
  const ArrayLayout& wanted = *parameters[index];
  if (&argument == &wanted ||
      (argument.slice == wanted.slice && argument.element == wanted.element &&
       argument.shard_dims == wanted.shard_dims) ||
      program->parameters[index].is_token) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(program->name, ": argument ", index, " is ",
                                                 argument.ToString(), ", the program takes ",
                                                 wanted.ToString()));
}

absl::StatusOr<std::shared_ptr<const PlacedProgram>> Place(ProgramPtr program,
                                                           const topology::Slice* slice) {
  const int64_t needed = program->num_replicas * program->num_partitions;
  if (needed != static_cast<int64_t>(slice->devices.size())) {
    return absl::InvalidArgumentError(absl::StrCat(program->name, " was compiled for ", needed,
                                                   " devices and cannot be placed on ",
                                                   slice->devices.size()));
  }
  auto placed = std::make_shared<PlacedProgram>();
  placed->slice = slice;
  for (const compile::Boundary& parameter : program->parameters) {
    placed->parameters.push_back(LayoutOf(parameter, slice));
  }
  for (const compile::Boundary& result : program->results) {
    placed->results.push_back(LayoutOf(result, slice));
    placed->result_bytes += placed->results.back()->shard_bytes;
  }
  placed->program = std::move(program);
  return std::shared_ptr<const PlacedProgram>(std::move(placed));
}

}  // namespace shardway::program
