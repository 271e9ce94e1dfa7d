"""shard_map islands in random programs: a collective of jax.lax, and what it comes to on whole values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from spmd_random_sketch import LARGEST, Sketch
from spmd_random_steps import ranked


@dataclass(frozen=True)
class Split:
    """A value's dimension `at` lies in `parts` parts over `axes`; `to` is another one, or the same."""

    axes: tuple[str, ...]
    parts: int
    at: int
    to: int

    def padded(self, x: jax.Array, both: bool) -> jax.Array:
        """`x` with as many zeros as it takes to split `at`, and where `both`, the parts along `to`."""
        more = [0] * x.ndim
        more[self.at] = -x.shape[self.at] % self.parts
        if both:
            already = self.parts if self.to == self.at else 1
            size = (x.shape[self.to] + more[self.to]) // already
            more[self.to] += -size % self.parts * already
        return jnp.pad(x, [(0, m) for m in more])

    def blocks(self, x: jax.Array) -> jax.Array:
        """The parts, in a new first dimension."""
        size = x.shape[self.at] // self.parts
        parts = x.reshape(*x.shape[: self.at], self.parts, size, *x.shape[self.at + 1 :])
        return jnp.moveaxis(parts, self.at, 0)

    def number(self, x: jax.Array) -> jax.Array:
        """Of the part that an element lies in, to be added to `x`."""
        place = lax.broadcasted_iota(jnp.int32, x.shape, self.at)
        return (place // (x.shape[self.at] // self.parts)).astype(x.dtype)


@dataclass(frozen=True)
class Kind:
    """What the parts do, what that makes of the whole, which dimension the result is split along."""

    parts: Callable[[jax.Array, Split], jax.Array]
    whole: Callable[[jax.Array, Split], jax.Array]
    result: Callable[[Split], int | None]
    both: bool = False
    large: bool = False  # it sums
    varying: bool = True  # JAX knows of the result where it varies: gradients are right


def shifted(x: jax.Array, s: Split) -> jax.Array:
    return lax.ppermute(x, s.axes, [(i, (i + 1) % s.parts) for i in range(s.parts)])


def sums_of_parts(x: jax.Array, s: Split) -> jax.Array:
    sums = lax.cumsum(s.blocks(x), s.at + 1)
    return jnp.moveaxis(sums, 0, s.at).reshape(x.shape)


KINDS = {
    "psum": Kind(
        lambda x, s: lax.psum(2 * x, s.axes),
        lambda x, s: 2 * s.blocks(x).sum(0),
        lambda _: None,
        large=True,
    ),
    "ppermute": Kind(
        shifted, lambda x, s: jnp.roll(x, x.shape[s.at] // s.parts, s.at), lambda s: s.at
    ),
    "axis_index": Kind(
        lambda x, s: x + lax.axis_index(s.axes), lambda x, s: x + s.number(x), lambda s: s.at
    ),
    "psum_scatter": Kind(
        lambda x, s: lax.psum_scatter(x, s.axes, scatter_dimension=s.to, tiled=True),
        lambda x, s: s.blocks(x).sum(0),
        lambda s: s.to,
        both=True,
        large=True,
    ),
    "cumsum": Kind(lambda x, s: lax.cumsum(x, s.at), sums_of_parts, lambda s: s.at, large=True),
    "all_gather": Kind(
        lambda x, s: lax.all_gather(x, s.axes, axis=s.at, tiled=True) * 3,
        lambda x, s: x * 3,
        lambda _: None,
        varying=False,
    ),
    "all_to_all": Kind(
        lambda x, s: lax.all_to_all(x, s.axes, s.to, s.at, tiled=True) + 1,
        lambda x, s: x + 1,
        lambda s: s.to,
        both=True,
    ),
}


def island(s: Sketch) -> None:
    """A collective among parts of a value that is padded until it can be split."""
    d, v = s.draw, s.pick(lambda v: ranked(v) and v.floating)
    name = d.of([k for k, kind in KINDS.items() if kind.varying or not s.gradient])
    axes = [str(a) for a in d.rng.permutation(list(s.mesh.axis_names))][: d.between(1, 2)]
    if name == "ppermute":  # JAX counts devices in the mesh's order here, whatever the axes' order
        axes.sort(key=s.mesh.axis_names.index)
    rank = len(v.dims)
    at, to = d.between(0, rank - 1), d.between(0, rank - 1)
    if name == "all_to_all" and at == to:
        return
    kind = KINDS[name]
    split = Split(tuple(axes), math.prod(s.mesh.shape[a] for a in axes), at, to)
    manual = set(axes) if d.chance(0.4) else set(s.mesh.axis_names)

    def spec(dim: int | None) -> P:
        return P(*(split.axes if i == dim else None for i in range(rank)))

    mapped: Callable[..., Any] = jax.shard_map(
        lambda x: kind.parts(x, split),
        mesh=s.mesh,
        in_specs=spec(at),
        out_specs=spec(kind.result(split)),
        axis_names=manual,
        check_vma=s.gradient,
    )

    def fn(on_mesh: bool, x: jax.Array) -> jax.Array:
        x = split.padded(x, kind.both)
        return mapped(x) if on_mesh else kind.whole(x, split)

    s.add(
        f"island {name} %{v.index} {split} {manual}",
        fn,
        [v],
        lambda b, _: b * LARGEST if kind.large else 3 * b + 9,
    )
