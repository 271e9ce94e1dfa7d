"""Other PJRT plugins under the workers than the default one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECOND = "fastatomstruct_xla_cpu/libpjrt_cpu.so"
OLD = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"  # its FFI is older than our headers

PRELUDE = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    put = lambda a: jax.device_put(np.asarray(a, np.float32), NamedSharding(mesh, P("x")))
"""


def path_of(plugin: str) -> str:
    lib = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}"
    path = lib / "site-packages" / plugin
    if not path.exists():
        pytest.skip(f"{plugin} is not installed")
    return str(path)


@pytest.mark.parametrize("plugin", [SECOND, OLD])
def test_another_plugin_does_everything(script: Callable[..., Any], plugin: str) -> None:
    code = """
    a = put(np.arange(32).reshape(8, 4))
    total = jax.jit(lambda v: (v @ v.T).sum())
    print(float(total(a)))
    scattered = jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"),
                              out_specs=P())
    print(np.asarray(jax.jit(scattered)(a))[0].tolist())
    print(np.asarray(jnp.linalg.cholesky(jnp.eye(3) * 4)).diagonal().tolist())
    print(float(jax.jit(lambda v: jax.pure_callback(lambda u: u + 1, v, v))(jnp.float32(1))))
    print(np.asarray(jax.device_put(a, NamedSharding(mesh, P(None, None))))[7].tolist())
    """
    one = script(PRELUDE + code, islands=2, devices=4, SHARDWAY_PLUGIN=path_of(plugin))
    assert one.wait().splitlines() == [
        "61824.0",
        "[112.0, 120.0, 128.0, 136.0]",
        "[2.0, 2.0, 2.0]",
        "2.0",
        "[28.0, 29.0, 30.0, 31.0]",
    ]
