"""How JAX finds the backend: the `jax_plugins` entry point names this module.

JAX imports every plugin it finds and calls initialize(), whatever platform the program wants, so this
costs nothing and does nothing unless `shardway` is among the platforms asked for (JAX_PLATFORMS or
jax.config.jax_platforms). The library is loaded when JAX makes the client.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

NAME = "shardway"


def library_path() -> Path:
    """The PJRT plugin. SHARDWAY_LIBRARY names another one, e.g. in a build tree."""
    named = os.environ.get("SHARDWAY_LIBRARY")
    path = Path(named) if named else Path(__file__).parent / "libshardway_pjrt.so"
    if not path.is_file():
        raise RuntimeError(f"the Shardway plugin {path} is missing; install the package again")
    return path


def binary_path() -> Path | None:
    """The `shardway` program of this installation: in the package, with its scripts, or on PATH."""
    places = [Path(__file__).parent, Path(sysconfig.get_path("scripts"))]
    for place in places:
        path = place / "shardway"
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which("shardway")
    return Path(found) if found else None


def workers_plugin_path() -> Path | None:
    """The XLA that CPU workers load, where this environment has it."""
    spec = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "pjrt_c_api_cpu_plugin.so"
    return path if path.is_file() else None


def initialize() -> None:
    """Registers the backend with JAX. Called by JAX before it makes its first backend."""
    import jax
    from jax._src import xla_bridge

    platforms = (jax.config.jax_platforms or "").split(",")
    if NAME in platforms:
        if "cpu" not in platforms:
            # JAX hands the operands of debug.print and of callbacks over on its own CPU backend.
            jax.config.update("jax_platforms", ",".join([*platforms, "cpu"]))
        # First in the list wins; without a list this is never registered, so never chosen by itself.
        xla_bridge.register_backend_factory(NAME, _make_client, priority=0, fail_quietly=False)


def _make_client() -> Any:
    from jax._src import xla_bridge
    from jax._src.lib import xla_client

    from shardway import callbacks, custom_partitioning, resharding, send_recv

    library = library_path()
    if not xla_client.pjrt_plugin_loaded(NAME):
        xla_client.load_pjrt_plugin_dynamically(NAME, str(library))
    # Where this environment has things; the environment variables of the same names win.
    found = {"binary": binary_path(), "plugin": workers_plugin_path()}
    options = {
        name: str(path)
        for name, path in found.items()
        if path is not None and not os.environ.get(f"SHARDWAY_{name.upper()}")
    }
    client = xla_bridge.make_pjrt_c_api_client(NAME, options)
    callbacks.install(library)
    custom_partitioning.install()
    resharding.install()
    send_recv.install()
    return client
