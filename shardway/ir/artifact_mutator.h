// Damages artifacts at random, for fuzz tests: bits, bytes, lengths, pieces of the same and of
// other files.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "shardway/ir/test_artifacts.h"

namespace shardway::ir {

// A number in the environment: a test's seed or length.
inline uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// The same seed gives the same artifacts. One thread.
class ArtifactMutator {
 public:
  explicit ArtifactMutator(uint64_t seed) : random_(seed) {
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

}  // namespace shardway::ir
