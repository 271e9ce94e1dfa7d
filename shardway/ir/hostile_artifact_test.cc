// Artifacts built byte by byte to be as harmful as the format allows: deep, circular, or small with
// an enormous meaning. Each must be an error, at little cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardway/ir/artifact_reader.h"
#include "shardway/ir/text_writer.h"

namespace shardway::ir {
namespace {

using testing::HasSubstr;

std::string Number(uint64_t value) {
  int extra = 0;
  while (extra < 8 && (value >> (7 * (extra + 1))) != 0) ++extra;
  if (extra == 8) return std::string(1, '\0') + std::string(reinterpret_cast<char*>(&value), 8);
  const uint64_t word = (value << (extra + 1)) | (uint64_t{1} << extra);
  return std::string(reinterpret_cast<const char*>(&word), extra + 1);
}

std::string Numbers(std::initializer_list<uint64_t> values) {
  std::string bytes;
  for (const uint64_t v : values) bytes += Number(v);
  return bytes;
}

// Codes and numbers of the format, as used below.
constexpr uint64_t kBuiltin = 0;
constexpr uint64_t kVhlo = 1;
constexpr uint64_t kModuleOp = 0;
constexpr uint64_t kFuncOp = 1;
constexpr uint64_t kCaseOp = 2;
constexpr char kHasAttributes = 1;
constexpr char kHasRegions = 16;
constexpr char kHasProperties = 64;

// An artifact with a module and maybe one function. Attribute 0 is the unknown location.
class Artifact {
 public:
  Artifact() {
    AddAttribute(kBuiltin, Numbers({15}));
    main_ = AddString("main");
  }

  uint64_t AddString(std::string text) {
    strings_.push_back(std::move(text));
    return strings_.size() - 1;
  }
  uint64_t AddAttribute(uint64_t dialect, std::string bytes) {
    attributes_.emplace_back(dialect, std::move(bytes));
    return attributes_.size() - 1;
  }
  uint64_t AddType(uint64_t dialect, std::string bytes) {
    types_.emplace_back(dialect, std::move(bytes));
    return types_.size() - 1;
  }
  uint64_t next_attribute() const { return attributes_.size(); }
  uint64_t next_type() const { return types_.size(); }

  // The module has this attribute.
  absl::StatusOr<std::unique_ptr<Module>> ReadWithAttribute(uint64_t value) {
    const uint64_t name = AddAttribute(kBuiltin, Numbers({2, AddString("name")}));
    const uint64_t dict = AddAttribute(kBuiltin, Numbers({1, 1, name, value}));
    return Read(Op(kModuleOp, kHasAttributes | kHasRegions, Number(dict)) + Region(0, ""));
  }

  // The module has a function whose body is the region `body`.
  absl::StatusOr<std::unique_ptr<Module>> ReadWithBody(const std::string& body) {
    const uint64_t type = AddType(kVhlo, Numbers({8, 0, 0}));
    const uint64_t none = AddAttribute(kVhlo, Numbers({1, 0}));
    const uint64_t type_attr = AddAttribute(kVhlo, Numbers({17, type}));
    const uint64_t name = AddAttribute(kVhlo, Numbers({14, main_}));
    properties_ = Numbers({none, type_attr, none, name, name});
    const std::string function = Op(kFuncOp, kHasProperties | kHasRegions, Number(0)) + body;
    return Read(Op(kModuleOp, kHasRegions, "") + Region(1, function));
  }

  // Name, mask, location, what the mask announces, one region that is not isolated.
  static std::string Op(uint64_t name, char mask, const std::string& announced) {
    return Number(name) + std::string(1, mask) + Number(0) + announced + Number(1 << 1);
  }
  static std::string Region(uint64_t num_ops, const std::string& ops, uint64_t num_values = 0) {
    return Numbers({1, num_values, num_ops << 1}) + ops;
  }

 private:
  static std::string Section(char id, const std::string& bytes) {
    return std::string(1, id) + Number(bytes.size()) + bytes;
  }

  absl::StatusOr<std::unique_ptr<Module>> Read(const std::string& module_op) {
    std::vector<std::string> names = {"builtin", "vhlo", "module", "func_v1", "case_v1"};
    strings_.insert(strings_.end(), names.begin(), names.end());
    const uint64_t first = strings_.size() - names.size();
    std::string strings = Number(strings_.size());
    for (size_t i = strings_.size(); i-- > 0;) strings += Number(strings_[i].size() + 1);
    for (const std::string& s : strings_) strings += s + '\0';
    const std::string dialects = Numbers({2, first << 1, (first + 1) << 1, 3}) +
                                 Numbers({kBuiltin, 1, (first + 2) << 1}) +
                                 Numbers({kVhlo, 2, (first + 3) << 1, (first + 4) << 1});
    std::string bytes;
    std::string sizes = Numbers({attributes_.size(), types_.size()});
    for (const auto* entries : {&attributes_, &types_}) {
      for (const auto& [dialect, entry] : *entries) {
        bytes += entry;
        sizes += Numbers({dialect, 1, (entry.size() << 1) | 1});
      }
    }
    const std::string properties = Number(1) + Number(properties_.size()) + properties_;
    const std::string file = "ML\xEFR" + Number(6) + "StableHLO_v1.17.0" + '\0' +
                             Section(0, strings) + Section(1, dialects) + Section(2, bytes) +
                             Section(3, sizes) + Section(8, properties) +
                             Section(4, Number(1 << 1) + module_op);
    return ReadArtifact(std::make_shared<const std::string>(file));
  }

  std::vector<std::string> strings_;
  std::vector<std::pair<uint64_t, std::string>> attributes_;
  std::vector<std::pair<uint64_t, std::string>> types_;
  std::string properties_;
  uint64_t main_;
};

TEST(HostileArtifact, TheBuilderBuildsArtifacts) {
  Artifact artifact;
  const uint64_t text = artifact.AddAttribute(kVhlo, Numbers({14, artifact.AddString("value")}));
  const auto module = artifact.ReadWithAttribute(text);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_THAT(WriteText(**module), HasSubstr("name = \"value\""));
  const auto empty = Artifact().ReadWithBody(Artifact::Region(0, ""));
  EXPECT_TRUE(empty.ok()) << empty.status();
}

TEST(HostileArtifact, AttributesInThemselves) {
  Artifact artifact;
  const uint64_t self = artifact.next_attribute();
  artifact.AddAttribute(kVhlo, Numbers({1, 1, self}));
  EXPECT_THAT(artifact.ReadWithAttribute(self).status().message(), HasSubstr("contains itself"));
}

TEST(HostileArtifact, DeepAttributes) {
  Artifact artifact;
  const uint64_t outermost = artifact.next_attribute();
  for (int i = 0; i < 100000; ++i) {
    artifact.AddAttribute(kVhlo, Numbers({1, 1, artifact.next_attribute() + 1}));
  }
  artifact.AddAttribute(kVhlo, Numbers({2, 1}));
  EXPECT_THAT(artifact.ReadWithAttribute(outermost).status().message(), HasSubstr("too deeply"));
}

// 2^50 leaves in 50 entries.
TEST(HostileArtifact, DoublingAttributes) {
  Artifact artifact;
  const uint64_t outermost = artifact.next_attribute();
  for (int i = 0; i < 50; ++i) {
    const uint64_t next = artifact.next_attribute() + 1;
    artifact.AddAttribute(kVhlo, Numbers({1, 2, next, next}));
  }
  artifact.AddAttribute(kVhlo, Numbers({2, 1}));
  EXPECT_THAT(artifact.ReadWithAttribute(outermost).status().message(), HasSubstr("expands to"));
}

TEST(HostileArtifact, DoublingTypes) {
  Artifact artifact;
  const uint64_t outermost = artifact.next_type();
  for (int i = 0; i < 50; ++i) {
    const uint64_t next = artifact.next_type() + 1;
    artifact.AddType(kVhlo, Numbers({23, 2, next, next}));
  }
  artifact.AddType(kVhlo, Numbers({22}));
  const uint64_t attribute = artifact.AddAttribute(kVhlo, Numbers({17, outermost}));
  EXPECT_THAT(artifact.ReadWithAttribute(attribute).status().message(), HasSubstr("expands to"));
}

TEST(HostileArtifact, EnormousTensors) {
  Artifact artifact;
  const uint64_t f32 = artifact.AddType(kVhlo, Numbers({4}));
  // Dimensions are zigzag numbers.
  const uint64_t huge =
      artifact.AddType(kVhlo, Numbers({20, 2, uint64_t{1} << 60, uint64_t{1} << 60, f32}));
  const uint64_t attribute = artifact.AddAttribute(kVhlo, Numbers({17, huge}));
  EXPECT_THAT(artifact.ReadWithAttribute(attribute).status().message(), HasSubstr("any memory"));
}

TEST(HostileArtifact, QuantizedTypesAreUnimplementedByName) {
  Artifact artifact;
  const uint64_t i8 = artifact.AddType(kVhlo, Numbers({11}));
  const uint64_t f32 = artifact.AddType(kVhlo, Numbers({4}));
  const uint64_t quantized = artifact.AddType(kVhlo, Numbers({24, 1, i8, f32, 0, 0, 0, 0}));
  const uint64_t tensor = artifact.AddType(kVhlo, Numbers({20, 0, quantized}));
  const uint64_t attribute = artifact.AddAttribute(kVhlo, Numbers({17, tensor}));
  const absl::Status status = artifact.ReadWithAttribute(attribute).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("!quant.uniform<i8:f32"));
}

TEST(HostileArtifact, DeepRegions) {
  std::string body = Artifact::Region(0, "");
  for (int i = 0; i < 20000; ++i) {
    body = Artifact::Region(1, Artifact::Op(kCaseOp, kHasRegions, "") + body);
    if (body.size() > (1 << 20)) break;
  }
  EXPECT_THAT(Artifact().ReadWithBody(body).status().message(),
              HasSubstr("regions are nested too deeply"));
}

// Every region announces as many values as there may be; they are never defined.
TEST(HostileArtifact, AnnouncedValues) {
  std::string ops;
  for (int i = 0; i < 1000; ++i) {
    ops += Artifact::Op(kCaseOp, kHasRegions, "") + Artifact::Region(0, "", 1000);
  }
  EXPECT_FALSE(Artifact().ReadWithBody(Artifact::Region(1000, ops)).ok());
  EXPECT_THAT(
      Artifact().ReadWithBody(Artifact::Region(0, "", uint64_t{1} << 60)).status().message(),
      HasSubstr("more values than the file has bytes"));
}

TEST(HostileArtifact, AnnouncedOperators) {
  EXPECT_THAT(Artifact().ReadWithBody(Artifact::Region(uint64_t{1} << 61, "")).status().message(),
              HasSubstr("exceeds the bytes that are left"));
}

}  // namespace
}  // namespace shardway::ir
