"""Random operators on random shardings, what we send for each beside what XLA sends.

The cases of tests/spmd_random.py with dimensions large enough for bytes to count. Every argument arrives whole
and is pinned to its sharding behind a barrier, every result is pinned and returned as a weighted sum, so that both
partitioners solve the same problem. XLA's number is the better of its two partitioners'. A case is lost where we
send more bytes, and not for fewer collectives: a collective counts as many bytes as the planner says.

    python bench/partition_random.py [--cases N] [--seed S] [--only FAMILY] [--case SEED]

prints where we send more, worst first, with both sides' collectives, and a summary. A case in which XLA's own
compiler fails is counted as skipped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import partitioner  # first: it says which backend JAX has

# isort: split
import collective_bytes
import jax
import jax.numpy as jnp
import numpy as np
import spmd_random
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from partition_program import Program
from spmd_random_ops import Array, Dims, Draw

SCALE = {0: 1, 1: 192, 2: 24, 3: 6}  # by rank
NOTICED = 1.02  # a weighted sum more or less is not what this is about
COLLECTIVE_BYTES = 4096  # kCollectivePrice of shardway/spmd/costs.h


class Large(Draw):
    """Larger dimensions; values take no memory, since nothing runs."""

    def dims(self, rank: int | None = None, low: int = 1, high: int = 11) -> Dims:
        small = super().dims(rank, low, high)
        k = SCALE[min(len(small), 3)]
        return tuple(s if s == low else s * k + self.of([0, 0, 0, 1, 5]) for s in small)

    def array(self, dims: Dims, dtype: Any = np.float32, low: int = -4, high: int = 4) -> Array:
        return np.broadcast_to(np.zeros((), dtype), dims)

    def distinct(self, dims: Dims, dtype: Any = np.float32) -> Array:
        return self.array(dims, dtype)


def program_of(seed: int, only: str) -> tuple[str, Program]:
    shape = spmd_random.MESHES[seed % len(spmd_random.MESHES)]
    axes = dict(zip("xyz", shape, strict=False))

    def build(mesh: Mesh) -> Any:
        case = spmd_random.Case(seed, mesh, only, Large)
        case.pinned = lax.optimization_barrier

        def run(*values: jax.Array) -> jax.Array:
            total = jnp.float32(0)
            for r in case.sharded(*values):
                kept = r.real if jnp.issubdtype(r.dtype, jnp.complexfloating) else r
                kept = kept.astype(jnp.float32)
                for d in range(r.ndim):
                    kept = kept * jnp.cos(lax.broadcasted_iota(jnp.float32, r.shape, d) + d)
                total += jnp.sum(kept)
            return total

        return run

    case = spmd_random.Case(seed, spmd_random.mesh_of(shape), only, Large)
    program = Program(
        f"random_{seed}", build, lambda: case.op.args, [P() for _ in case.op.args], P(), axes, 0.0
    )
    return case.name, program


@dataclasses.dataclass
class Row:
    seed: int
    name: str = ""
    bytes: float = 0
    xla_bytes: float = 0
    collectives: float = 0
    xla_collectives: float = 0
    detail: tuple[str, ...] = ()
    xla_detail: tuple[str, ...] = ()
    error: str = ""

    @property
    def lost(self) -> bool:
        cost = self.bytes + COLLECTIVE_BYTES * self.collectives
        theirs = self.xla_bytes + COLLECTIVE_BYTES * self.xla_collectives
        return not self.error and self.more_bytes and cost > NOTICED * theirs

    @property
    def more_bytes(self) -> bool:
        return not self.error and self.bytes > NOTICED * self.xla_bytes


def compare(seed: int, only: str) -> Row:
    row = Row(seed)
    try:
        row.name, program = program_of(seed, only)
        devices = math.prod(program.axes.values())
        count = collective_bytes.count(partitioner.ours(program).hlo, devices)
        row.bytes, row.collectives = count.bytes, count.number
        row.detail = tuple(str(c) for c in count.collectives)
        sides = [
            collective_bytes.count(partitioner.xla(program, shardy=shardy).text, devices)
            for shardy in (True, False)
        ]
        best = min(sides, key=lambda s: (s.bytes, s.number))
        row.xla_bytes, row.xla_collectives = best.bytes, best.number
        row.xla_detail = tuple(str(c) for c in best.collectives)
    except Exception as error:
        row.error = "".join(traceback.format_exception_only(error)).strip()[-300:]
    return row


def compare_all(seeds: list[int], only: str, jobs: int) -> list[Row]:
    """A compiler that ends its process takes one case with it."""
    rows: list[Row] = []
    alone = 0  # of those that were under way when a process ended, each again by itself
    while len(rows) < len(seeds):
        left = seeds[len(rows) :][: alone or None]
        with ProcessPoolExecutor(1 if alone else jobs, mp_context=get_context("spawn")) as pool:
            try:
                for row in pool.map(compare, left, [only] * len(left)):
                    rows.append(row)
                alone = 0
            except BrokenProcessPool:
                if alone == 1 or jobs == 1:
                    rows.append(Row(seeds[len(rows)], error="the compiler ended its process"))
                alone = 1 if jobs > 1 else 0
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    draw = np.random.default_rng(options.seed)
    seeds = [int(s) for s in draw.integers(8 * 10**6, size=options.cases)]
    if options.case is not None:
        seeds = [options.case]
    rows = compare_all(seeds, options.only, options.jobs)
    losses = sorted((r for r in rows if r.lost), key=lambda r: -r.bytes / max(r.xla_bytes, 1.0))
    for r in losses:
        print(f"== {r.name}\n   {r.bytes:.0f} B beside {r.xla_bytes:.0f}")
        for side, detail in (("ours", r.detail), ("XLA", r.xla_detail)):
            for line in detail:
                print(f"  {side:4} {line}")
    for r in rows:
        if r.error:
            print(f"-- {r.seed} skipped: {r.error}")
    good = [r for r in rows if not r.error]
    print(
        json.dumps(
            {
                "cases": len(rows),
                "skipped": len(rows) - len(good),
                "losses": len(losses),
                "more_bytes": sum(r.more_bytes for r in good),
                "fewer_bytes": sum(r.xla_bytes > NOTICED * r.bytes for r in good),
                "bytes": sum(r.bytes for r in good),
                "xla_bytes": sum(r.xla_bytes for r in good),
                "collectives": sum(r.collectives for r in good),
                "xla_collectives": sum(r.xla_collectives for r in good),
            }
        )
    )


if __name__ == "__main__":
    main()
