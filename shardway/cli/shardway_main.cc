#include "shardway/cli/command_line.h"

int main(int argc, char** argv) {
  return shardway::cli::Main({argv + 1, argv + argc}, "shardway " SHARDWAY_VERSION);
}
