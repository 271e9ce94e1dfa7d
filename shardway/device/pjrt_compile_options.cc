#include "shardway/device/pjrt_compile_options.h"

#include <google/protobuf/unknown_field_set.h>

#include <limits>

#include "absl/status/status.h"
#include "shardway/base/status_macros.h"

namespace shardway::device {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Field numbers of xla/pjrt/proto/compile_options.proto.
namespace options_field {
constexpr int kExecutableBuildOptions = 3;
constexpr int kCompilePortableExecutable = 4;
constexpr int kEnvOptionOverrides = 7;
constexpr int kMatrixUnitOperandPrecision = 10;
}  // namespace options_field
namespace build_field {
constexpr int kDebugOptions = 3;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kCompEnvs = 13;
}  // namespace build_field

absl::Status ParseFields(std::string_view bytes, UnknownFieldSet* fields) {
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !fields->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("the compile options are not a CompileOptionsProto");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> PerDeviceCompileOptions(std::string_view user_options) {
  UnknownFieldSet user;
  SHARDWAY_RETURN_IF_ERROR(ParseFields(user_options, &user));

  UnknownFieldSet build;
  build.AddVarint(build_field::kNumReplicas, 1);
  build.AddVarint(build_field::kNumPartitions, 1);
  UnknownFieldSet options;
  options.AddVarint(options_field::kCompilePortableExecutable, 1);
  for (int i = 0; i < user.field_count(); ++i) {
    const UnknownField& field = user.field(i);
    if (field.number() == options_field::kExecutableBuildOptions &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      UnknownFieldSet user_build;
      SHARDWAY_RETURN_IF_ERROR(ParseFields(field.length_delimited(), &user_build));
      for (int j = 0; j < user_build.field_count(); ++j) {
        const int number = user_build.field(j).number();
        if (number == build_field::kDebugOptions || number == build_field::kCompEnvs) {
          build.AddField(user_build.field(j));
        }
      }
    } else if (field.number() == options_field::kEnvOptionOverrides ||
               field.number() == options_field::kMatrixUnitOperandPrecision) {
      options.AddField(field);
    }
  }
  std::string build_bytes;
  build.SerializeToString(&build_bytes);
  options.AddLengthDelimited(options_field::kExecutableBuildOptions, build_bytes);
  std::string bytes;
  options.SerializeToString(&bytes);
  return bytes;
}

}  // namespace shardway::device
