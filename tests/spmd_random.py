"""Random operators on random shardings, each against its unsharded twin; padding is poisoned.

Several cases make one program, so that compiling it pays; a program that fails is taken apart. With
--programs each case is a program of up to 15 steps (spmd_random_programs.py).

    python spmd_random.py [--cases N] [--seed S] [--only FAMILY] [--programs] [--case SEED]
        prints {"seed": S, "cases": n, "uneven": m, "rings": r, "wrong": {name: error}}; a case is repeated
        by its own seed: --case. `rings`: windowed einsums in the programs (SPMD_FLAGS="--windowed-einsum always")
"""

from __future__ import annotations

import argparse
import json
import re
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from spmd_oracle import twin
from spmd_random_ops import FAMILIES, Draw, Op, uneven
from spmd_random_programs import Program

MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (3,), (2, 3), (5,), (4,), (3, 2)]
A_PROGRAM = 8  # cases
rings = 0


class Case:
    """An operator with a sharding for every argument and result."""

    def __init__(
        self, seed: int, mesh: Mesh, only: str = "", choices: Callable[[int], Draw] = Draw
    ) -> None:
        draw = choices(seed)
        families = [f for f in FAMILIES if f.__name__ == only] or FAMILIES
        self.op: Op = draw.of(families)(draw)
        self.mesh = mesh
        results = jax.tree.leaves(jax.eval_shape(self.op.fn, *self.op.args))
        self.args = self.op.args
        shapes = [a.shape for a in self.args] + [r.shape for r in results]
        specs = [draw.spec(mesh, shape) for shape in shapes]
        self.operands, self.results = specs[: len(self.args)], specs[len(self.args) :]
        self.pinned: Callable[[list[jax.Array]], list[jax.Array]] = lambda operands: operands
        # A result that nobody annotates is propagation's to lay out.
        self.free = [draw.chance(0.3) for _ in results]
        self.name = f"{seed}: {self.op.name} {self.operands} to {self.results} on {mesh.shape}"
        self.uneven = any(map(partial(uneven, mesh), shapes, specs))

    def sharded(self, *values: jax.Array) -> list[jax.Array]:
        def hold(v: jax.Array, spec: P) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(self.mesh, spec))

        held = self.pinned([hold(v, s) for v, s in zip(values, self.operands, strict=True)])
        results = jax.tree.leaves(self.op.fn(*held))
        return [
            r if free else hold(r, s)
            for r, s, free in zip(results, self.results, self.free, strict=True)
        ]

    def whole(self, *values: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(self.op.fn(*values))


def mesh_of(shape: tuple[int, ...]) -> Mesh:
    devices = jax.devices()[: int(np.prod(shape))]
    return Mesh(np.array(devices).reshape(shape), ("x", "y", "z")[: len(shape)])


def run(cases: Sequence[Case | Program]) -> int:
    """All of them as one program; returns how many windowed einsums are in it."""

    def both(which: Callable[[Case | Program], Any]) -> Callable[..., list[Any]]:
        def program(*values: jax.Array) -> list[Any]:
            results, at = [], 0
            for case in cases:
                n = len(case.args)
                results.append(which(case)(*values[at : at + n]))
                at += n
            return results

        return program

    args = [a for case in cases for a in case.args]
    whole = both(lambda c: c.whole)
    text = twin(
        both(lambda c: c.sharded),
        args,
        mesh=cases[0].mesh,
        out=jax.tree.map(lambda _: P(), jax.eval_shape(whole, *args)),
        reference=whole,
        tolerance=1e-4,
    )
    return len(set(re.findall(r'shardway\.ring = "(\d+)"', text)))


def shortest(case: Case | Program, error: Exception) -> tuple[Case | Program, Exception]:
    """A wrong program's first so many steps that are wrong already, and what is wrong."""
    for part in case.beginnings() if isinstance(case, Program) else ():
        try:
            run([part])
        except Exception as earlier:
            return part, earlier
    return case, error


def faults(cases: Sequence[Case | Program]) -> dict[str, str]:
    global rings
    try:
        rings += run(cases)
        return {}
    except Exception as error:
        together = error
        if len(cases) == 1:
            case, error = shortest(cases[0], error)
            return {case.name: "".join(traceback.format_exception_only(error))[-1500:]}
    wrong: dict[str, str] = {}
    for case in cases:
        wrong |= faults([case])
    if not wrong:
        return {" | ".join(c.name for c in cases): f"only together: {together}"[-3000:]}
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=64)
    parser.add_argument("--seed", type=int, default=int(np.random.SeedSequence().entropy) % 10**9)  # type: ignore[arg-type]
    parser.add_argument("--only", default="")
    parser.add_argument("--case", type=int)
    parser.add_argument("--programs", action="store_true")
    options = parser.parse_args()

    def cases_of(seeds: Sequence[int]) -> Sequence[Case | Program]:
        mesh = mesh_of(MESHES[seeds[0] % len(MESHES)])
        if options.programs:
            return [Program(s, mesh) for s in seeds]
        return [Case(s, mesh, options.only) for s in seeds]

    if options.case is not None:
        print(json.dumps(faults(cases_of([options.case])), indent=1))
        return
    wrong: dict[str, str] = {}
    ragged = count = 0
    draw = np.random.default_rng(options.seed)
    while count < options.cases:
        index = int(draw.integers(len(MESHES)))
        # The seed of a case names its mesh too.
        seeds = (
            draw.integers(10**6, size=1 if options.programs else A_PROGRAM) * len(MESHES) + index
        )
        cases = cases_of([int(s) for s in seeds])
        wrong |= faults(cases)
        ragged += sum(c.uneven for c in cases)
        count += len(cases)
    found = {"seed": options.seed, "cases": count, "uneven": ragged, "rings": rings, "wrong": wrong}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
