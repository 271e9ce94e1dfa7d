// Prints StableHLO portable artifacts as text, for people and for the tests' oracle.
//
//   shardway-ir-text [--locations] [--no-sdy] [--verify] < artifact > text
//   shardway-ir-text [options] file…        writes file.mlir beside each; an error to file.err
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardway/ir/artifact_reader.h"
#include "shardway/ir/text_writer.h"
#include "shardway/ir/verify.h"

namespace {

struct Options {
  shardway::ir::TextOptions text;
  bool verify = false;
};

absl::StatusOr<std::string> ToText(std::istream& in, const Options& options) {
  auto bytes = std::make_shared<const std::string>(std::istreambuf_iterator<char>(in),
                                                   std::istreambuf_iterator<char>());
  auto module = shardway::ir::ReadArtifact(bytes);
  if (!module.ok()) return module.status();
  if (options.verify) {
    if (absl::Status status = shardway::ir::Verify(**module); !status.ok()) return status;
  }
  return shardway::ir::WriteText(**module, options.text);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--locations") {
      options.text.locations = shardway::ir::Locations::kInline;
    } else if (argument == "--no-sdy") {
      options.text.sdy = false;
    } else if (argument == "--verify") {
      options.verify = true;
    } else {
      files.emplace_back(argument);
    }
  }
  if (files.empty()) {
    const auto text = ToText(std::cin, options);
    if (!text.ok()) {
      std::cerr << text.status() << '\n';
      return 1;
    }
    std::cout << *text;
    return 0;
  }
  int failed = 0;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    const auto text = ToText(in, options);
    if (text.ok()) {
      std::ofstream(file + ".mlir") << *text;
    } else {
      std::ofstream(file + ".err") << text.status() << '\n';
      std::cerr << file << ": " << text.status() << '\n';
      failed = 1;
    }
  }
  return failed;
}
