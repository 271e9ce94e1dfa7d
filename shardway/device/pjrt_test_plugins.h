// The plugins that tests run against, where they are installed in the project's Python environment.
#pragma once

#include <glob.h>

#include <string>

namespace shardway::device {

struct TestPlugin {
  const char* name;
  const char* pattern;  // from the project's root
};

inline constexpr TestPlugin kDefaultTestPlugin = {
    "lammps_jax", ".venv/lib/python3.*/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"};
inline constexpr TestPlugin kSecondTestPlugin = {
    "fastatomstruct", ".venv/lib/python3.*/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so"};
// Those whose programs may call handlers of ours (collectives, callbacks, linear algebra).
inline constexpr TestPlugin kTestPluginsWithCalls[] = {kDefaultTestPlugin, kSecondTestPlugin};
inline constexpr TestPlugin kTestPlugins[] = {
    kDefaultTestPlugin,
    kSecondTestPlugin,
    {"xla_cpu_pjrt", ".venv/lib/python3.*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
};

// Its path; empty when it is not installed. Tests run in the project's root.
inline std::string FindTestPlugin(const TestPlugin& plugin) {
  glob_t found = {};
  std::string path;
  if (glob(plugin.pattern, 0, nullptr, &found) == 0 && found.gl_pathc > 0) {
    path = found.gl_pathv[0];
  }
  globfree(&found);
  return path;
}

}  // namespace shardway::device
