"""Sessions with little memory, and several of them on one cluster, through `shardway run`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SHARD_BYTES = 256 << 10

PRELUDE = """
    import subprocess, sys
    import jax, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    elements = len(devices) * 65536  # 256 KiB on each device
"""


def run_on_cluster(code: str, path: Path, *options: str) -> str:
    """The standard output of a script under `shardway run`."""
    path.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(code))
    program = Path(sys.executable).parent / "shardway"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    done = subprocess.run(
        [program, "run", "--islands=2", "--devices=2", *options, path],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_long_chain_in_two_arrays_with_an_error_in_the_middle(tmp_path: Path) -> None:
    """Whole-system twin of the controller's unit test: nothing deadlocks, nothing leaks."""
    code = """
        step = jax.jit(lambda v: v + 1, in_shardings=sharding, out_shardings=sharding)
        x = jax.device_put(np.zeros(elements, np.float32), sharding)
        for i in range(1000):
            x = step(x)
        try:
            jax.block_until_ready(jax.device_put(np.zeros(4 * elements, np.float32), sharding))
            print("no error")
        except jax.errors.JaxRuntimeError as error:
            print(str(error).split(":")[0])
        for i in range(1000):
            x = step(x)
        print(np.asarray(x)[0])
    """
    budget = f"--memory-budget={2 * SHARD_BYTES + 4096}"
    out = run_on_cluster(code, tmp_path / "chain.py", budget)
    assert out.split() == ["RESOURCE_EXHAUSTED", "2000.0"]


def test_several_clients_share_a_cluster(tmp_path: Path) -> None:
    """Their collectives interleave in one order on all hosts: no deadlock, right results."""
    code = """
        if len(sys.argv) == 1:
            command = [sys.executable, __file__, "child"]
            children = [subprocess.Popen(command) for _ in range(3)]
            print([child.wait() for child in children])
        else:
            f = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x") / 4 + 1, mesh=mesh,
                                      in_specs=P("x"), out_specs=P("x")))
            x = jax.device_put(np.zeros(4, np.float32), sharding)
            for i in range(500):
                x = f(x)
            print(np.asarray(x)[0], flush=True)
    """
    out = run_on_cluster(code, tmp_path / "clients.py")
    assert out.split("\n")[:4] == ["500.0"] * 3 + ["[0, 0, 0]"]
