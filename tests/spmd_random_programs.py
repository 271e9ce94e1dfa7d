"""Random programs of several operators for spmd_random.py: `--programs`.

A program is drawn step by step from its seed, so that its first steps are the same with fewer of them:
a wrong one is shortened until it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import spmd_random_bodies as bodies
import spmd_random_islands as islands
import spmd_random_steps as steps
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from spmd_random_ops import Array, Draw, uneven
from spmd_random_sketch import Sketch

Draws = list[Callable[[Sketch], object]]

ONCE: Draws = [
    steps.convert,
    steps.choose,
    steps.outer,
    steps.dynamic_slice,
    steps.arg_reduce,
    steps.compare,
    steps.take,
    steps.take_along,
    steps.scatter,
    steps.sort,
    steps.sort_pairs,
    steps.top_k,
    steps.random_numbers,
    steps.pool,
    bodies.call,
    bodies.fori,
    bodies.accumulate,
    bodies.while_,
    bodies.scan,
    bodies.cond,
]
OFTEN: Draws = [
    steps.unary,
    steps.binary,
    steps.transpose,
    steps.reshape,
    steps.turn,
    steps.cut,
    steps.pad,
    steps.concatenate,
    steps.reduce,
    steps.dot,
    steps.convolution,
    steps.cumulative,
    steps.constrain,
    islands.island,
]
FAMILIES = ONCE + 2 * OFTEN


class Program:
    """A program with a sharding for some of its arguments and results, as spmd_random.Case has."""

    def __init__(self, seed: int, mesh: Mesh, most: int = 15) -> None:
        self.seed = seed
        self.mesh = mesh
        draw = Draw(seed)
        self.gradient = draw.chance(0.3)
        self.sketch = sketch = Sketch(draw, mesh, self.gradient)
        wanted = min(most, draw.between(4, 15))
        for _ in range(draw.between(1, 2)):
            sketch.argument(draw.dims(draw.between(1, 3)))
        while len(sketch.steps) < wanted:
            draw.of(FAMILIES)(sketch)
        results = jax.eval_shape(self.whole, *self.args)
        # Drawn apart, so that they are the same with fewer steps.
        apart = Draw(seed + 1)
        shapes = [a.shape for a in self.args] + [r.shape for r in results]
        specs = [apart.spec(mesh, shape) for shape in shapes]
        self.free = [apart.chance(0.4) for _ in specs]
        self.operands, self.results = specs[: len(self.args)], specs[len(self.args) :]
        self.uneven = any(map(partial(uneven, mesh), shapes, specs))
        self.name = "\n ".join(
            [
                f"{seed}: {'gradient of ' * self.gradient}{len(sketch.steps)} steps on {mesh.shape}",
                *(f"{v.index}: {v.dims} {v.dtype}" for v in sketch.values if v.index < 0),
                *(f"{list(t.outputs)}: {t.name}" for t in sketch.steps),
            ]
        )

    def beginnings(self) -> Iterator[Program]:
        """Its first steps, ever more of them, but not all."""
        for most in range(1, len(self.sketch.steps)):
            yield Program(self.seed, self.mesh, most)

    @property
    def args(self) -> list[Array]:
        return self.sketch.args

    def held(
        self, values: Sequence[jax.Array], specs: list[P], free: list[bool]
    ) -> list[jax.Array]:
        return [
            v if left else self.sketch.held(v, spec, True)
            for v, spec, left in zip(values, specs, free, strict=True)
        ]

    def sharded(self, *values: jax.Array) -> list[jax.Array]:
        n = len(values)
        held = self.held(values, self.operands, self.free[:n])
        return self.held(self.run(True, held), self.results, self.free[n:])

    def whole(self, *values: jax.Array) -> list[jax.Array]:
        return self.run(False, values)

    def run(self, split: bool, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The results; with them the gradient of a weighted sum of all that are floats."""
        if not self.gradient:
            return self.sketch.run(split, values)
        floats = [i for i, v in enumerate(values) if jnp.issubdtype(v.dtype, jnp.floating)]

        def total(chosen: list[jax.Array]) -> tuple[Any, list[jax.Array]]:
            given = dict(enumerate(values)) | dict(zip(floats, chosen, strict=True))
            results = self.sketch.run(split, [given[i] for i in range(len(values))])
            return sum(
                (r * (jnp.arange(r.size) % 5 - 2).reshape(r.shape)).sum()
                for r in results
                if jnp.issubdtype(r.dtype, jnp.floating)
            ) + jnp.float32(0), results

        gradients, results = jax.grad(total, has_aux=True)([values[i] for i in floats])
        return [*results, *gradients]
