"""Pipeline x spatial: convolution layers are split over `stage`, the rows of the images over `rows`.

Inside of each stage the convolution exchanges halos with the neighbours in `rows`; between stages the
whole state moves on by a collective-permute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardway

LAYERS = 4
MICROBATCHES = 4


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (4, len(devices) // 4) if len(devices) >= 4 else (1, 1)
    return Mesh(np.array(devices).reshape(shape), ("stage", "rows"))


def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    """[batch, height, width, channels] in and out."""
    convolved = jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return x + jnp.tanh(convolved)


def net(weights: jax.Array, images: jax.Array, mesh: Mesh) -> jax.Array:
    """[microbatch, batch, height, width, channels] in and out."""
    images = shardway.mesh_split(images, mesh, [None, None, "rows", None, None])
    return shardway.pipeline(layer, weights, images, mesh=mesh, axis="stage")


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = make_mesh(devices)
    rng = np.random.default_rng(10)

    def put(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    weights = put(P("stage"), LAYERS, 3, 3, 4, 4)
    images = put(P(None, None, "rows"), MICROBATCHES, 2, 8, 8, 4)
    apply = jax.jit(lambda w, x: net(w, x, mesh))
    return {"y": np.asarray(apply(weights, images))}


if __name__ == "__main__":
    print(run(jax.devices())["y"].sum())
