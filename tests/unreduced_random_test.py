"""Random programs on arrays that are unreduced over random axes, each beside the same in NumPy: the sum of
the parts that the devices hold, read shard by shard, is what NumPy has.

Every case has a seed of its own. A case's number is added to it, so that `-k '[7]'` with the seed that
was printed is that case again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from seeds import seed_of_run

AXES = ("x", "y", "z")
CASES = int(os.environ.get("SHARDWAY_RANDOM_CASES", "25"))

Step = tuple[Callable[[jax.Array], jax.Array], Callable[[np.ndarray], np.ndarray]]


def spec_of(x: jax.Array) -> P:
    return jax.typeof(x).sharding.spec


def axes_of(dim: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if dim is None else (dim,) if isinstance(dim, str) else dim


def random_spec(draw: random.Random, shape: tuple[int, ...]) -> P:
    unreduced = set(draw.sample(AXES, draw.randint(0, 3)))
    free = [axis for axis in AXES if axis not in unreduced]
    draw.shuffle(free)
    dims = []
    for size in shape:
        taken: list[str] = []
        while free and size % 2 ** (len(taken) + 1) == 0 and draw.random() < 0.4:
            taken.append(free.pop())
        dims.append(tuple(taken) if taken else None)
    return P(*dims, unreduced=unreduced)


def whole_rows(x: jax.Array) -> jax.Array:
    """`x` with its first dimension not split."""
    spec = spec_of(x)
    return jax.reshard(x, P(None, *spec.partitions[1:], unreduced=spec.unreduced))


def summed_rows(x: jax.Array) -> jax.Array:
    """The axes that split the rows are unreduced then."""
    spec = spec_of(x)
    unreduced = set(axes_of(spec.partitions[0])) | set(spec.unreduced)
    total = jax.lax.reduce_sum(x, [0], out_sharding=P(*spec.partitions[1:], unreduced=unreduced))
    return jax.lax.broadcast_in_dim(total, (2, *total.shape), (1,))


def product(x: jax.Array, w: np.ndarray, axis: str) -> jax.Array:
    x = jax.reshard(x, P(None, axis))
    out = P(unreduced={axis})
    return jnp.einsum("ij,jk->ik", x, jax.reshard(jnp.asarray(w), P(axis)), out_sharding=out)


def scaled(x: jax.Array, w: np.ndarray) -> jax.Array:
    spec = spec_of(x)
    return x * jax.reshard(jnp.asarray(w), P(*spec.partitions, reduced=spec.unreduced))


def random_step(draw: random.Random, shape: tuple[int, ...]) -> Step:
    weights = np.random.default_rng(draw.randrange(2**31))
    spec = random_spec(draw, shape)
    scale = weights.integers(-2, 3, shape).astype(np.float32)
    square = weights.integers(-2, 3, (shape[1], 4)).astype(np.float32)
    axis = draw.choice(AXES)
    steps: list[Step] = [
        (lambda x: jax.reshard(x, spec), lambda x: x),
        (lambda x: jax.reshard(x, spec), lambda x: x),
        (lambda x: x + x, lambda x: x + x),
        (lambda x: x.T, lambda x: x.T),
        (lambda x: scaled(x, scale), lambda x: x * scale),
        (lambda x: product(x, square, axis), lambda x: x @ square),
        (lambda x: jnp.stack([x, x]).sum(0), lambda x: 2 * x),
        (summed_rows, lambda x: np.broadcast_to(x.sum(0), (2, shape[1]))),
        (
            lambda x: jax.lax.concatenate([whole_rows(x)] * 2, 0),
            lambda x: np.concatenate([x, x]),
        ),
        (
            lambda x: jax.lax.slice(whole_rows(x), (0, 0), (2, shape[1])),
            lambda x: x[:2],
        ),
        (lambda x: jax.lax.fori_loop(0, 3, lambda _, sum: sum + x, x), lambda x: 4 * x),
        (lambda x: jax.lax.cond(jnp.array(True), lambda: x + x, lambda: x), lambda x: 2 * x),
    ]
    return draw.choice(steps)


def sum_of_parts(x: jax.Array, mesh: Mesh) -> np.ndarray:
    spec = spec_of(x)
    split = {axis for dim in spec.partitions for axis in axes_of(dim)}
    copies = [i for i, a in enumerate(AXES) if a not in split and a not in spec.unreduced]
    where = NamedSharding(mesh, P(*spec.partitions)).devices_indices_map(x.shape)
    place = {device: index for index, device in np.ndenumerate(mesh.devices)}
    total = np.zeros(x.shape)
    for shard in x.addressable_shards:
        if all(place[shard.device][i] == 0 for i in copies):
            total[where[shard.device]] += np.asarray(shard.data)
    return total


@pytest.mark.parametrize("case", range(CASES))
def test_the_parts_make_the_sum(case: int) -> None:
    seed = seed_of_run("random") + case
    draw = random.Random(seed)
    order = list(range(8))
    if draw.random() < 0.3:
        draw.shuffle(order)
    devices = np.array(jax.devices())[order].reshape(2, 2, 2)
    mesh = Mesh(devices, AXES, axis_types=(AxisType.Explicit,) * 3)
    shape = (draw.choice([2, 4, 8]), draw.choice([2, 4, 6, 8]))
    spec = random_spec(draw, shape)
    value = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
    expected, steps = value, []
    for _ in range(draw.randint(1, 6)):
        ours, numpy_s = random_step(draw, expected.shape)
        steps.append(ours)
        expected = numpy_s(expected)

    def program(x: jax.Array) -> jax.Array:
        for step in steps:
            x = step(x)
        return x

    with jax.set_mesh(mesh):
        out = jax.jit(program)(jax.device_put(value, NamedSharding(mesh, spec)))
        np.testing.assert_array_equal(sum_of_parts(out, mesh), expected)
        np.testing.assert_array_equal(jax.reshard(out, P()), expected)
