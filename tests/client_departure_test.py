"""A client that goes away, killed or in order, has all that it owned freed within a second of its end.

Seen from outside, on a cluster that outlives it: the memory of its arrays in the workers (those that
queued runs would still use included), the shared memory mapped for it, the threads that served it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

FREED_WITHIN_S = 1.0
# The machine may be busy with something else at one moment, not at all of them.
ATTEMPTS = 4
GIVE_UP_S = 30.0
SHARD_BYTES = 32 << 20
DEVICES = 2  # of each of the two islands

HOLD = """
import os, sys
print(os.environ["SHARDWAY_ADDRESS"], flush=True)
sys.stdin.read()
"""

# Owns a large array, which the last of many queued runs will use: they would take half a minute.
CLIENT = f"""
    import sys, time
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    devices = jax.devices()
    sharding = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
    large = jax.device_put(np.ones((len(devices), {SHARD_BYTES}), np.int8), sharding)
    sin = lambda v: jax.lax.fori_loop(0, 100, lambda _, u: jnp.sin(u), v)
    step = jax.jit(lambda v: sin(v) + jnp.sum(v[:, 0]))
    use = jax.jit(lambda v, big: jnp.sum(big) + v[0, 0])
    x = jax.device_put(np.ones((len(devices), 1 << 15), np.float32), sharding)
    jax.block_until_ready((step(x), use(x, large)))
    if "queue" in sys.argv:
        for _ in range(3000):
            x = step(x)
        y = use(x, large)
        del large
        assert not y.is_ready()
    print("ready", flush=True)
    sys.stdin.read()
"""


def private_bytes(process: psutil.Process) -> int:
    """Without what it shares with others, as the client's arena."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


@dataclass(frozen=True)
class Traces:
    """What a client leaves in a cluster's processes while it is there."""

    worker_bytes: int
    arenas: int  # mapped, in all processes
    rings: int
    controller_threads: int


@dataclass
class Cluster:
    address: str
    controller: psutil.Process
    workers: list[psutil.Process]

    def traces(self) -> Traces:
        maps = "".join(
            Path(f"/proc/{process.pid}/maps").read_text()
            for process in [self.controller, *self.workers]
        )
        return Traces(
            sum(private_bytes(worker) for worker in self.workers),
            len(re.findall("memfd:shardway-arena", maps)),
            len(re.findall("memfd:shardway-ring", maps)),
            self.controller.num_threads(),
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    script = tmp_path / "hold.py"
    script.write_text(HOLD)
    command = [str(Path(sys.executable).parent / "shardway"), "run", "--islands=2"]
    process = subprocess.Popen(
        [*command, f"--devices={DEVICES}", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        by_role: dict[str, list[psutil.Process]] = {"controller": [], "worker": []}
        for child in psutil.Process(process.pid).children(recursive=True):
            by_role.get(child.cmdline()[1], []).append(child)
        assert len(by_role["worker"]) == 2
        yield Cluster(address, by_role["controller"][0], by_role["worker"])
        process.stdin.close()
        assert process.wait(timeout=GIVE_UP_S) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=10)
        process.stdout.close()


def start_client(cluster: Cluster, *arguments: str) -> subprocess.Popen[str]:
    lines = "\n".join(line[4:] for line in CLIENT.splitlines())
    environment = os.environ | {"JAX_PLATFORMS": "shardway", "SHARDWAY_ADDRESS": cluster.address}
    process = subprocess.Popen(
        [sys.executable, "-c", lines, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def seconds_until(condition: Callable[[], Any]) -> float:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < GIVE_UP_S
        time.sleep(0.005)
    return time.monotonic() - begun


def leave(process: subprocess.Popen[str], how: str) -> None:
    """Kills it, or lets it end as a script does; returns when it is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    if how == "killed":
        process.kill()
    process.stdin.close()
    status = process.wait(timeout=GIVE_UP_S)
    assert status == (-signal.SIGKILL if how == "killed" else 0)
    process.stdout.close()


@pytest.mark.parametrize(
    ("how", "queue"), [("killed", "queue"), ("killed", "idle"), ("in order", "idle")]
)
def test_a_client_that_goes_leaves_nothing(cluster: Cluster, how: str, queue: str) -> None:
    before = cluster.traces()
    took = []
    for _ in range(ATTEMPTS):
        client = start_client(cluster, queue)
        present = cluster.traces()
        held = 2 * DEVICES * SHARD_BYTES
        assert present.worker_bytes - before.worker_bytes > held
        assert present.arenas >= before.arenas + 2, "mapped by both workers"
        assert present.rings > before.rings

        leave(client, how)

        def is_freed(present: Traces = present) -> bool:
            now = cluster.traces()
            return (
                now.worker_bytes < present.worker_bytes - 0.8 * held
                and now.arenas == before.arenas
                and now.rings == before.rings
                and now.controller_threads == before.controller_threads
            )

        took.append(seconds_until(is_freed))
        if took[-1] < FREED_WITHIN_S:
            return
    pytest.fail(f"freed after {took} s")
