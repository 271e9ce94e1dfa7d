"""Other PJRT plugins under the workers than the default one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECOND = "fastatomstruct_xla_cpu/libpjrt_cpu.so"
OLD = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"  # it finds no custom calls of ours

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


def test_a_second_plugin_does_everything(script: Callable[..., Any]) -> None:
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
    one = script(PRELUDE + code, islands=2, devices=4, SHARDWAY_PLUGIN=path_of(SECOND))
    assert one.wait().splitlines() == [
        "61824.0",
        "[112.0, 120.0, 128.0, 136.0]",
        "[2.0, 2.0, 2.0]",
        "2.0",
        "[28.0, 29.0, 30.0, 31.0]",
    ]


def test_an_old_plugin_runs_what_needs_no_calls(script: Callable[..., Any]) -> None:
    """Programs without collectives; others say that the plugin lacks the handler."""
    code = """
    a = put(np.arange(8))
    print(np.asarray(jax.jit(lambda v: jnp.sin(v) * 0 + v * 2)(a)).tolist())
    try:
        print(float(jax.jit(jnp.sum)(a)))
    except jax.errors.JaxRuntimeError as error:
        print("shardway.collective" in str(error))
    """
    one = script(PRELUDE + code, islands=2, devices=4, SHARDWAY_PLUGIN=path_of(OLD))
    assert one.wait().splitlines() == [
        "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]",
        "True",
    ]
