// The artifacts under tests/data/artifacts, for tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

namespace shardway::ir {

// By file name without ".bc", e.g. "psum@1.17.0". Tests run in the project's root.
inline std::map<std::string, std::string> TestArtifacts() {
  std::map<std::string, std::string> artifacts;
  for (const auto& entry : std::filesystem::directory_iterator("tests/data/artifacts")) {
    std::ifstream in(entry.path(), std::ios::binary);
    artifacts[entry.path().stem().string()] =
        std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return artifacts;
}

inline std::shared_ptr<const std::string> TestArtifact(const std::string& name) {
  return std::make_shared<const std::string>(TestArtifacts().at(name));
}

}  // namespace shardway::ir
