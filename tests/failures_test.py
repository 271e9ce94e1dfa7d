"""What is killed is cleaned up: kill -9 of client, worker and controller while training, and Ctrl-C.

The others must report or be gone within two seconds on a machine at rest; the tests allow more, since
they may share theirs with a build.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

WITHIN_S = 15.0

TRAIN = """
    import os, sys
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    w = jax.device_put(np.ones((16, 16), np.float32), NamedSharding(mesh, P("x")))
    step = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x") / 2 + v / 2, mesh=mesh,
                                 in_specs=P("x"), out_specs=P("x")))
    try:
        for i in range(100_000_000):
            w = step(w)
            if i % 10 == 0:
                float(w[0, 0])
            if i == 100:
                print("training", flush=True)
    except jax.errors.JaxRuntimeError as error:
        print("error:", str(error).splitlines()[0], flush=True)
        os._exit(3)
"""


def relatives(pid: int) -> dict[str, list[psutil.Process]]:
    """The cluster's processes below a process: by sub-command."""
    found: dict[str, list[psutil.Process]] = {"controller": [], "worker": []}
    for process in psutil.Process(pid).children(recursive=True):
        command = process.cmdline()
        if len(command) > 1 and Path(command[0]).name == "shardway" and command[1] in found:
            found[command[1]].append(process)
    return found


def await_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=WITHIN_S)
    left = [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    assert not left, f"left behind: {[' '.join(p.cmdline()) for p in left]}"


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def training(script: Callable[..., Any]) -> Any:
    """A script in the middle of its training, on 2 islands x 1 host x 2 devices."""
    before = shared_memory()
    one = script(TRAIN, islands=2, devices=2)
    assert one.process.stdout.readline().strip() == "training", one.process.communicate()
    cluster = relatives(one.process.pid)
    assert len(cluster["controller"]) == 1
    assert len(cluster["worker"]) == 2
    yield one.process, cluster
    await_gone([*cluster["controller"], *cluster["worker"]])
    assert shared_memory() <= before


def test_killed_client(training: Any) -> None:
    process, cluster = training
    process.kill()
    await_gone([*cluster["controller"], *cluster["worker"]])


@pytest.mark.parametrize("which", ["worker", "controller"])
def test_killed_server(training: Any, which: str) -> None:
    """The client hears of it, in words, and ends by itself."""
    process, cluster = training
    cluster[which][0].kill()
    out, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 3, (out, errors)
    assert out.startswith("error: UNAVAILABLE"), out
    await_gone([*cluster["controller"], *cluster["worker"]])


def test_interrupted(training: Any) -> None:
    """Ctrl-C reaches the whole process group of a terminal."""
    process, cluster = training
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode != 0
    await_gone([*cluster["controller"], *cluster["worker"]])


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_shardway_run(end: signal.Signals, tmp_path: Path) -> None:
    """`shardway run` takes script and cluster with it, whatever way it ends."""
    path = tmp_path / "train.py"
    path.write_text("\n".join(line[4:] for line in TRAIN.splitlines()))
    command = [str(Path(sys.executable).parent / "shardway"), "run", "--devices", "2", str(path)]
    environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "training"
        descendants = psutil.Process(process.pid).children(recursive=True)
        begun = time.monotonic()
        process.send_signal(end)
        process.wait(timeout=WITHIN_S)
        await_gone(descendants)
        assert time.monotonic() - begun < 2 * WITHIN_S
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # type: ignore[union-attr]
        process.wait(timeout=10)
