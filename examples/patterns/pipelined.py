"""Pipeline parallelism as tensor sharding: layers are split over `stage`, microbatches flow through.

`shardway.pipeline` writes all stages as one vectorised program; the hand-over to the next stage is a
collective-permute. GPipe and the circular schedule are the same program with another `repeats`.
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

LAYERS = 8
MICROBATCHES = 8


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (4, len(devices) // 4) if len(devices) >= 4 else (1, 1)
    return Mesh(np.array(devices).reshape(shape), ("stage", "data"))


def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    return x + jnp.tanh(x @ w)


def make_step(mesh: Mesh, repeats: int) -> Any:
    def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        out = shardway.pipeline(layer, weights, x, mesh=mesh, axis="stage", repeats=repeats)
        return jnp.mean((out - y) ** 2)

    @jax.jit
    def step(weights: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, grads = jax.value_and_grad(loss)(weights, x, y)
        return weights - 0.1 * grads, value

    return step


def inputs(mesh: Mesh) -> tuple[jax.Array, jax.Array, jax.Array]:
    rng = np.random.default_rng(8)

    def put(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    batch = P(None, "data")
    return (
        put(P(), LAYERS, 16, 16),
        put(batch, MICROBATCHES, 4, 16),
        put(batch, MICROBATCHES, 4, 16),
    )


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = make_mesh(devices)
    results: dict[str, Any] = {}
    # With 4 stages: 2 layers after each other are one round of 8 (GPipe), or two rounds of 4.
    for name, repeats in (("gpipe", 1), ("circular", 2)):
        weights, x, y = inputs(mesh)
        step = make_step(mesh, repeats)
        losses = []
        for _ in range(2):
            weights, value = step(weights, x, y)
            losses.append(float(value))
        results[name] = losses
        results[f"{name} weights"] = np.asarray(weights)
    return results


if __name__ == "__main__":
    numbers = run(jax.devices())
    print(numbers["gpipe"], numbers["circular"])
