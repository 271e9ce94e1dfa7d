"""A random program while it is drawn: arguments, then steps, each of which makes values of earlier ones.

Values are *exact* while they are small integers, whatever their type, and so may be compared, sorted and
rounded; others are *rough*, differ by the order of a sum, and only go where that makes little difference.
A step is a function of `split` (whether this is the program for the mesh or its twin for one device)
and of its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from spmd_random_ops import Array, Dims, Draw

Fn = Callable[..., Any]

LARGEST = 3000  # elements
EXACT = 2.0**22  # float32 holds integers up to 2**24; sums stay below that
TAMED = 8.0


@dataclass(frozen=True)
class Value:
    """An array of the program: which, and what is known of it."""

    index: int
    dims: Dims
    dtype: Any
    exact: bool
    bound: float  # of its elements' size

    @property
    def floating(self) -> bool:
        return bool(np.issubdtype(self.dtype, np.floating))

    @property
    def signed(self) -> bool:
        return self.dtype != np.bool_


@dataclass(frozen=True)
class Step:
    """Makes values `outputs` of values `inputs`."""

    name: str
    fn: Fn
    inputs: Sequence[int]
    outputs: range


def tame(x: jax.Array) -> jax.Array:
    """A small integer made of one; its gradient is that of x."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x - 8 * lax.stop_gradient(jnp.round(x / 8))
    return x % 8


def squash(x: jax.Array) -> jax.Array:
    return x / (1 + jnp.abs(x))


class Sketch:
    """The program so far."""

    def __init__(self, draw: Draw, mesh: Mesh, gradient: bool) -> None:
        self.draw = draw
        self.mesh = mesh
        self.gradient = gradient  # of it will be taken
        self.args: list[Array] = []
        self.steps: list[Step] = []
        self.values: list[Value] = []
        self.used: set[int] = set()

    def argument(self, dims: Dims, dtype: Any = np.float32, low: int = -4, high: int = 4) -> Value:
        """A new one. All arguments come first in the program, whenever they are drawn."""
        array = self.draw.array(dims, dtype, low, high)
        value = Value(-len(self.args) - 1, dims, array.dtype, True, max(abs(low), abs(high)))
        self.args.append(array)
        self.values.append(value)
        return value

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value:
        """A value, rather a new one; an argument where none fits."""
        choices = [v for v in self.values if fits(v)]
        if not choices:
            return self.argument(self.draw.dims(3, high=7))
        back = min(self.draw.between(1, 6), self.draw.between(1, len(choices)))
        return choices[-min(back, len(choices))]

    def held(self, x: jax.Array, spec: Any, split: bool) -> jax.Array:
        return lax.with_sharding_constraint(x, NamedSharding(self.mesh, spec)) if split else x

    def add(
        self,
        name: str,
        fn: Fn,
        inputs: Sequence[Value],
        grow: Callable[..., float] = max,
        exact: bool = True,
    ) -> list[Value]:
        """One more step; `grow` says of the operands' bounds how large results get."""
        if grow(*(v.bound for v in inputs), 0.0) > EXACT:
            inputs = [self.tamed(v) for v in inputs]
        bound = grow(*(v.bound for v in inputs), 0.0)
        shapes = [jax.ShapeDtypeStruct(v.dims, v.dtype) for v in inputs]
        results = jax.tree.leaves(jax.eval_shape(lambda *a: fn(False, *a), *shapes))
        if not all(0 < math.prod(r.shape) <= LARGEST for r in results):
            return []
        first = sum(len(s.outputs) for s in self.steps)
        exact = exact and all(v.exact for v in inputs)
        made = [Value(first + i, r.shape, r.dtype, exact, bound) for i, r in enumerate(results)]
        outputs = range(first, first + len(made))
        self.steps.append(Step(name, fn, [v.index for v in inputs], outputs))
        self.used |= {v.index for v in inputs}
        self.values += made
        return made

    def tamed(self, v: Value) -> Value:
        """`v`, or what is left of it where it has grown."""
        if v.dtype == np.bool_ or v.bound <= TAMED:
            return v
        fn = tame if v.exact else squash
        name = f"{fn.__name__} %{v.index}"
        return self.add(name, lambda _, x: fn(x), [v], lambda *_: TAMED)[0]

    def run(self, split: bool, args: Sequence[jax.Array]) -> list[jax.Array]:
        """Values that no step used, in the order they were made."""
        values: dict[int, jax.Array] = {-i - 1: a for i, a in enumerate(args)}
        for step in self.steps:
            made = jax.tree.leaves(step.fn(split, *(values[i] for i in step.inputs)))
            values |= dict(zip(step.outputs, made, strict=True))
        return [values[v.index] for v in self.values if v.index >= 0 and v.index not in self.used]
