// Damaged artifacts: whatever the bytes, reading ends with a module or an error. Run it under
// AddressSanitizer (`make asan`). SHARDWAY_FUZZ_SEED repeats a run, SHARDWAY_FUZZ_RUNS sets its
// length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "shardway/ir/artifact_reader.h"
#include "shardway/ir/clone.h"
#include "shardway/ir/test_artifacts.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"

namespace shardway::ir {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {
    for (auto& [name, bytes] : TestArtifacts()) corpus_.push_back(std::move(bytes));
  }

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  std::string Next() {
    std::string bytes = corpus_[Below(corpus_.size())];
    const size_t edits = 1 + Below(4);
    for (size_t i = 0; i < edits; ++i) Edit(bytes);
    return bytes;
  }

 private:
  void Edit(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = Below(bytes.size());
    switch (Below(9)) {
      case 0:  // one bit
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
        break;
      case 1:  // any byte
        bytes[at] = static_cast<char>(random_());
        break;
      case 2:  // a byte with a meaning: extremes, and the longest number's first byte
        bytes[at] = "\x00\x01\x03\x05\x7f\x80\xfe\xff"[Below(8)];
        break;
      case 3:  // one more or less
        bytes[at] = static_cast<char>(bytes[at] + (Below(2) == 0 ? 2 : -2));
        break;
      case 4:
        bytes.erase(at, 1 + Below(8));
        break;
      case 5:
        bytes.insert(at, std::string(1 + Below(8), static_cast<char>(random_())));
        break;
      case 6:
        bytes.resize(at);
        break;
      case 7: {  // a piece of the same file elsewhere
        const std::string piece = bytes.substr(at, 1 + Below(24));
        const size_t to = Below(bytes.size());
        bytes.replace(to, piece.size(), piece);
        break;
      }
      default: {  // a piece of another file
        const std::string& other = corpus_[Below(corpus_.size())];
        const std::string piece = other.substr(Below(other.size()), 1 + Below(64));
        bytes.replace(at, piece.size(), piece);
        break;
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
};

TEST(ArtifactFuzz, DamagedArtifactsAreErrors) {
  const uint64_t seed = FromEnvironment("SHARDWAY_FUZZ_SEED", std::random_device()());
  const uint64_t runs = FromEnvironment("SHARDWAY_FUZZ_RUNS", 12000);
  SCOPED_TRACE(testing::Message() << "SHARDWAY_FUZZ_SEED=" << seed);
  RecordProperty("seed", std::to_string(seed));
  std::printf("SHARDWAY_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Mutator mutator(seed);
  uint64_t read = 0;
  uint64_t well_formed = 0;
  for (uint64_t i = 0; i < runs; ++i) {
    auto module = ReadArtifact(std::make_shared<const std::string>(mutator.Next()));
    if (!module.ok()) {
      ASSERT_TRUE(module.status().code() == absl::StatusCode::kInvalidArgument ||
                  module.status().code() == absl::StatusCode::kUnimplemented)
          << "run " << i << ": " << module.status();
      continue;
    }
    ++read;
    EXPECT_FALSE(WriteText(**module).empty());
    if (!Verify(**module).ok()) continue;
    ++well_formed;
    Module copy;
    copy.meshes = (*module)->meshes;
    Cloner cloner(&copy);
    for (const Function* f : (*module)->functions()) cloner.CloneFunction(*f, f->name);
    const absl::Status status = Verify(copy);
    EXPECT_TRUE(status.ok()) << "run " << i << ": " << status;
  }
  // The damage must reach all stages to be worth the name.
  EXPECT_GT(read, runs / 100);
  EXPECT_LT(read, runs);
  EXPECT_GT(well_formed, 0u);
}

}  // namespace
}  // namespace shardway::ir
