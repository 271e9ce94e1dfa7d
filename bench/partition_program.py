"""What bench/partitioner.py partitions: a program, its annotations, and what it must send at the least.

Boundaries are fixed on both sides, so that both compilers solve the same problem. A size that does not
divide cannot cross JAX's boundary: such a program pins its arguments inside (`uneven`) and returns a
checksum of a result that is pinned likewise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Tree = Any


@dataclasses.dataclass(frozen=True)
class Program:
    """`fn(mesh)` gives the function of `args`; specs are trees over the mesh's axes, like the arguments."""

    name: str
    fn: Callable[[Mesh], Callable[..., Any]]
    args: Callable[[], Sequence[Any]]
    specs: Sequence[Tree]
    out: Tree
    axes: dict[str, int]
    bound: float  # bytes that each device must send at the least
    tolerance: float = 1e-4


def mesh_of(axes: dict[str, int]) -> Mesh:
    n = math.prod(axes.values())
    return Mesh(np.array(jax.devices()[:n]).reshape(tuple(axes.values())), tuple(axes))


def shardings(tree: Tree, mesh: Mesh) -> Tree:
    """A tree of specs as one of shardings over `mesh`."""
    return jax.tree.map(lambda s: NamedSharding(mesh, s), tree, is_leaf=lambda s: isinstance(s, P))


def f32(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def i32(*shape: int, high: int = 100, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, high, shape, dtype=np.int32)


# ---- lower bounds ----


def all_reduce(nbytes: float, n: int) -> float:
    return 2 * nbytes * (n - 1) / n


def all_gather(nbytes: float, n: int) -> float:
    """Of the whole result, or, for a reduce-scatter, of the operand."""
    return nbytes * (n - 1) / n


def held(shape: Sequence[int], spec: P, mesh: Mesh) -> list[np.ndarray]:
    """Per device, which elements of an array of this shape it holds, as a flat boolean array."""
    masks = []
    for device in np.ndindex(mesh.devices.shape):
        place = dict(zip(mesh.axis_names, device, strict=True))
        mask = np.ones((), bool)
        for d, size in enumerate(shape):
            entry = spec[d] if d < len(spec) else None
            names = entry if isinstance(entry, tuple) else (entry,) if entry else ()
            index, parts = 0, 1
            for name in names:
                index = index * mesh.shape[name] + place[name]
                parts *= mesh.shape[name]
            tile = -(-size // parts)
            row = np.arange(size) // tile == index
            mask = mask[..., None] & row
        masks.append(mask.reshape(-1))
    return masks


def movement(
    fn: Callable[[np.ndarray], Any],
    shape: Sequence[int],
    spec: P,
    out: P,
    axes: dict[str, int],
    itemsize: int = 4,
) -> float:
    """Of a program that only moves elements: what a device needs for its results and does not hold, on average.

    `fn` is applied to the numbers of the elements; a negative number is no element.
    """
    mesh = mesh_of(axes)
    source = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    result = np.asarray(fn(source))
    before = held(shape, spec, mesh)
    after = held(result.shape, out, mesh)
    flat = result.reshape(-1)
    missing = 0
    for have, want in zip(before, after, strict=True):
        needed = np.unique(flat[want])
        needed = needed[needed >= 0].astype(np.int64)
        missing += int(np.count_nonzero(~have[needed]))
    return missing * itemsize / mesh.devices.size


# ---- meshes ----

XY = {"x": 2, "y": 4}
YX = {"x": 4, "y": 2}
LINE = {"x": 8}
CUBE = {"x": 2, "y": 2, "z": 2}

Make = Callable[..., Any]


def plain(fn: Make) -> Callable[[Mesh], Make]:
    return lambda _: fn


def uneven(fn: Make, spec: P, out: P | None = None) -> Callable[[Mesh], Make]:
    """Arguments pinned to `spec` (as far as their rank goes), a checksum of the pinned results."""

    def build(mesh: Mesh) -> Make:
        def pin(v: jax.Array, s: P) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(mesh, P(*s[: v.ndim])))

        def run(*values: jax.Array) -> jax.Array:
            results = jax.tree.leaves(fn(*[pin(v, spec) for v in values]))
            total = jnp.float32(0)
            for r in results:
                weights = jnp.cos(lax.iota(jnp.float32, r.size).reshape(r.shape))
                r = pin(r, spec if out is None else out)
                total += jnp.sum(jnp.where(jnp.isfinite(r), r, 0).astype(jnp.float32) * weights)
            return total

        return run

    return build


def moves(
    name: str,
    fn: Make,
    shape: Sequence[int],
    spec: P,
    out: P,
    axes: dict[str, int] = XY,
    reference: Callable[[np.ndarray], Any] | None = None,
) -> Program:
    return Program(
        name,
        plain(fn),
        lambda: [f32(*shape)],
        [spec],
        out,
        axes,
        movement(reference or fn, shape, spec, out, axes),
    )


def dot(
    name: str, lhs: P, rhs: P, out: P, bound: float, axes: dict[str, int] = XY, n: int = 512
) -> Program:
    return Program(
        name,
        plain(lambda a, b: a @ b),
        lambda: [f32(n, n), f32(n, n, seed=1)],
        [lhs, rhs],
        out,
        axes,
        bound,
    )
