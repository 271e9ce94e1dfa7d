// The symbol by which frameworks find a PJRT plugin.
#include "shardway/pjrt_plugin/api.h"

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  return shardway::pjrt_plugin::Api();
}
