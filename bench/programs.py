"""The computation of Pathways' Figure 5, in JAX: a scalar AllReduce, then a scalar multiply and add.

`measure` runs it in three ways on whatever devices JAX has, in this process or, multi-controller, in
several at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MODES = ("opbyop", "fused", "fused_loop")
CHAIN = 128  # computations in one call of the fused modes
BATCH_S = 0.25  # a measured batch of calls takes at least this long

Call = Callable[[jax.Array], jax.Array]


class Bench:
    """One scalar for each device, and the programs over them."""

    def __init__(self) -> None:
        self.count = len(jax.devices())
        self.mesh = Mesh(np.array(jax.devices()), ("x",))
        self.sharding = NamedSharding(self.mesh, P("x"))
        self.x = self.scalars(1.0)
        self._largest = self._jit(lambda v: jax.lax.pmax(v, "x"))

    def scalars(self, value: float) -> jax.Array:
        whole = np.full((self.count,), value, np.float32)
        return jax.make_array_from_callback(whole.shape, self.sharding, lambda i: whole[i])

    def program(self, mode: str) -> tuple[Call, int]:
        """The jitted call of a mode, and how many computations are in it."""

        def one(v: jax.Array) -> jax.Array:
            return jax.lax.psum(v, "x") * (1.0 / self.count) + 1.0

        def unrolled(v: jax.Array) -> jax.Array:
            for _ in range(CHAIN):
                v = one(v)
            return v

        def loop(v: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, CHAIN, lambda _, v: one(v), v)

        body, computations = {
            "opbyop": (one, 1),
            "fused": (unrolled, CHAIN),
            "fused_loop": (loop, CHAIN),
        }[mode]
        return self._jit(body), computations

    def agree(self, value: float) -> float:
        """The largest of the values that the processes of a multi-controller run bring."""
        return float(np.asarray(self._largest(self.scalars(value)).addressable_shards[0].data)[0])

    def _jit(self, body: Call) -> Call:
        spec = P("x")
        return jax.jit(
            jax.shard_map(body, mesh=self.mesh, in_specs=spec, out_specs=spec, check_vma=False)
        )


def run_calls(call: Call, x: jax.Array, calls: int, window: int) -> float:
    """Seconds that a chain of calls takes, each on the last one's result.

    `window`: wait for every so many calls; 0: only for the last.
    """
    begun = time.perf_counter()
    for i in range(1, calls + 1):
        x = call(x)
        if window and i % window == 0:
            jax.block_until_ready(x)
    jax.block_until_ready(x)
    return time.perf_counter() - begun


def measure(bench: Bench, mode: str, repeats: int, window: int = 0) -> float:
    """Computations per second: the best of `repeats` batches."""
    call, computations = bench.program(mode)
    check(bench, call, computations)
    calls = 1
    while bench.agree(run_calls(call, bench.x, calls, window)) < BATCH_S:
        calls *= 2
    best = min(bench.agree(run_calls(call, bench.x, calls, window)) for _ in range(repeats))
    return calls * computations / best


def check(bench: Bench, call: Call, computations: int) -> None:
    """Every computation adds one to the mean: a wrong answer is not worth timing."""
    mine = np.asarray(call(bench.x).addressable_shards[0].data)[0]
    if not np.isclose(mine, 1.0 + computations):
        raise SystemExit(f"wrong result: {mine} instead of {1.0 + computations}")


def serial_work(rounds: int) -> Callable[[jax.Array], jax.Array]:
    """Work that one core does alone: each round needs the last one's result and is too small to split."""

    def work(v: jax.Array) -> jax.Array:
        matrix = jnp.zeros((8, 8), jnp.float32) + v * 1e-3
        done = jax.lax.fori_loop(0, rounds, lambda _, m: jnp.sin(m) * 0.5 + m * 0.5, matrix)
        return v + done[0, 0] * 1e-9

    return work
