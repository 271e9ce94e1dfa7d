"""Spatial partitioning: height and width of images are split over a 2x2 mesh (more devices split the
batch). Convolutions exchange halos, the rows and columns that their windows share with neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYOUT = ("NHWC", "HWIO", "NHWC")


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (len(devices) // 4, 2, 2) if len(devices) >= 4 else (1, 1, 1)
    return Mesh(np.array(devices).reshape(shape), ("batch", "height", "width"))


def convolve(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=LAYOUT)


def net(params: Sequence[jax.Array], x: jax.Array) -> jax.Array:
    """[batch, height, width, 3] → [batch, 4]."""
    first, second, head = params
    x = jax.nn.relu(convolve(x, first))
    x = jax.nn.relu(convolve(x, second, stride=2))
    return jnp.mean(x, axis=(1, 2)) @ head


def loss(params: Sequence[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((net(params, x) - y) ** 2)


@jax.jit
def step(
    params: Sequence[jax.Array], x: jax.Array, y: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return [p - 0.1 * g for p, g in zip(params, grads, strict=True)], value


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = make_mesh(devices)
    rng = np.random.default_rng(5)

    def normal(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    params: Sequence[jax.Array] = [
        normal(P(), 3, 3, 3, 8),
        normal(P(), 5, 5, 8, 16),
        normal(P(), 16, 4),
    ]
    x = normal(P("batch", "height", "width", None), 4, 16, 16, 3)
    y = normal(P("batch"), 4, 4)
    losses = []
    for _ in range(3):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "first": np.asarray(params[0])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
