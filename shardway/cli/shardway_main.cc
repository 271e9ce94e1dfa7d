#ifdef SHARDWAY_MIMALLOC
#include <mimalloc.h>
#endif

#include "shardway/cli/command_line.h"

namespace {

// A training step takes the memory again that the last one freed. Given back to the system in
// between (mimalloc's default: after 25 ms), every page of it would fault anew, which cost the demo
// 12 %.
void KeepFreedMemoryForAWhile() {
#ifdef SHARDWAY_MIMALLOC
  constexpr long kMilliseconds = 10'000;
  mi_option_set_default(mi_option_decommit_delay, kMilliseconds);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemoryForAWhile();
  return shardway::cli::Main({argv + 1, argv + argc}, "shardway " SHARDWAY_VERSION);
}
