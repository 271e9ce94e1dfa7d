"""What waits for something that does not come: a frozen host, a callback that never returns.

Deadlines here are short, and only what a deadline is for may meet it: a host that is slow to compile
delays the others, it does not fail them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import psutil

CLUSTER = """
    import time
    import jax, jax.numpy as jnp, numpy as np, psutil
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("x",))
    near = Mesh(np.array(devices[:2]), ("x",))  # on the first host
    far = Mesh(np.array(devices[2:]), ("x",))  # on the second

    def put(mesh):
        return jax.device_put(np.ones(len(mesh.devices), np.float32), NamedSharding(mesh, P("x")))

    def sum_over(mesh):
        return jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"),
                                     out_specs=P("x")))

    relatives = psutil.Process().children(recursive=True)
    workers = sorted((p for p in relatives if p.cmdline()[1] == "worker"), key=lambda p: p.pid)
"""


def test_a_host_that_compiles_slowly_is_waited_for(script: Callable[..., Any]) -> None:
    """One worker is frozen before it compiles, three times as long as the collective timeout."""
    code = """
    x = put(mesh)
    jax.block_until_ready(x)
    workers[1].suspend()
    y = sum_over(mesh)(x)
    time.sleep(3)
    workers[1].resume()
    print(np.asarray(y))
    """
    one = script(CLUSTER + code, islands=2, devices=2, SHARDWAY_COLLECTIVE_TIMEOUT="1")
    assert one.wait().split() == ["[4.", "4.", "4.", "4.]"]


def test_a_frozen_host_delays_nobody_else(script: Callable[..., Any]) -> None:
    """Not even when more is sent to it than its channel holds (4 MiB)."""
    code = """
    f, x = sum_over(near), put(near)
    jax.block_until_ready(f(x))
    page, place = np.ones(1000, np.float32), NamedSharding(far, P())
    workers[1].suspend()
    sent = [jax.device_put(page, place) for _ in range(3000)]  # 12 MB
    for _ in range(20):
        x = f(x) / 2
        assert float(x[0]) == 1
    print("near went on", flush=True)
    workers[1].resume()
    print(sum(float(a[0]) for a in sent[::100]))
    """
    one = script(CLUSTER + code, islands=2, devices=2)
    assert one.wait().splitlines() == ["near went on", "30.0"]


def test_a_callback_that_never_returns(script: Callable[..., Any]) -> None:
    """It is named, whatever devices wait for its result in a collective meanwhile."""
    code = """
    def sleepy(v):
        time.sleep(1000)

    f = jax.jit(lambda v: jax.pure_callback(sleepy, jax.ShapeDtypeStruct(v.shape, v.dtype), v) + 1)
    try:
        print(f(put(mesh)))
    except jax.errors.JaxRuntimeError as error:
        print(str(error))
    g = jax.jit(lambda v: v + 1)
    print(np.asarray(g(put(mesh))), flush=True)
    import os
    os._exit(0)
    """
    one = script(
        CLUSTER + code,
        islands=2,
        devices=2,
        SHARDWAY_COLLECTIVE_TIMEOUT="1",
        SHARDWAY_CALLBACK_TIMEOUT="3",
    )
    out = one.wait()
    assert "DEADLINE_EXCEEDED" in out
    assert "host callback sleepy at <string>:" in out
    assert "did not return within 3 s" in out
    assert out.splitlines()[-1] == "[2. 2. 2. 2.]"


def test_memory_stats_follow_what_lives(script: Callable[..., Any]) -> None:
    """device.memory_stats(): what the session's arrays take on a device, and its budget there."""
    code = """
    before = [d.memory_stats()["bytes_in_use"] for d in devices]
    x = jax.device_put(np.ones((len(devices), 1 << 20), np.int8), NamedSharding(mesh, P("x")))
    y = jax.device_put(np.ones(1 << 20, np.int8), devices[3])
    jax.block_until_ready((x, y))
    now = [d.memory_stats()["bytes_in_use"] for d in devices]
    print([(n - b) >> 20 for n, b in zip(now, before)])
    print(devices[0].memory_stats()["bytes_limit"])
    del x, y
    for _ in range(1000):
        if [d.memory_stats()["bytes_in_use"] for d in devices] == before:
            print("freed")
            break
        time.sleep(0.01)
    """
    one = script(CLUSTER + code, islands=2, devices=2, SHARDWAY_MEMORY_BUDGET=str(1 << 30))
    assert one.wait().splitlines() == ["[1, 1, 1, 2]", str(1 << 30), "freed"]


def test_a_frozen_controller_is_an_error(script: Callable[..., Any]) -> None:
    """Reads, compilations and uploads end within the liveness limit of ten seconds."""
    code = """
    f, x = sum_over(near), put(near)
    jax.block_until_ready(f(x))
    controller = next(p for p in relatives if p.cmdline()[1] == "controller")
    controller.suspend()
    for use in (lambda: np.asarray(f(x)), lambda: jax.jit(jnp.sin)(x), lambda: put(far)):
        try:
            jax.block_until_ready(use())
        except Exception as error:
            print("UNAVAILABLE" in str(error) and "has not answered" in str(error), flush=True)
    """
    one = script(CLUSTER + code, islands=2, devices=2)
    assert one.wait().splitlines() == ["True"] * 3


def test_workers_log_what_they_do(script: Callable[..., Any]) -> None:
    code = """
    jax.block_until_ready(sum_over(mesh)(put(mesh)))
    """
    one = script(CLUSTER + code, islands=2, devices=2, SHARDWAY_LOG="info")
    _, log = one.process.communicate(timeout=120)
    for event in ("session 1 opened", "program jit_", "ready after"):
        assert event in log
    assert one.process.returncode == 0, log


def wakes(pid: int) -> int:
    """How often the process's threads have gone to sleep so far."""
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as status:
            count += sum(
                int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt")
            )
    return count


def test_an_idle_cluster_is_quiet(script: Callable[..., Any]) -> None:
    """Nobody looks around for work or for the others' death: what happens wakes who it concerns."""
    code = """
    jax.block_until_ready(sum_over(mesh)(put(mesh)))
    print("idle", flush=True)
    time.sleep(1000)
    """
    one = script(CLUSTER + code, islands=2, devices=2)
    assert one.process.stdout.readline().strip() == "idle"
    time.sleep(2)
    processes = [one.process.pid]
    processes += [p.pid for p in psutil.Process(one.process.pid).children(recursive=True)]
    assert len(processes) == 4
    before = {pid: wakes(pid) for pid in processes}
    time.sleep(4)
    per_second = {pid: (wakes(pid) - before[pid]) / 4 for pid in processes}
    assert max(per_second.values()) < 15, per_second
