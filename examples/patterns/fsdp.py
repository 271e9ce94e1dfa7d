"""Fully sharded data parallelism: batch and all weights are split over the same axis. Each layer of the
scan gathers its own weights, and its gradients come back as a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardway import mesh_split

Params = dict[str, jax.Array]
LAYERS = 4


def make_step(mesh: Mesh) -> Any:
    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        hidden = jax.nn.gelu(x @ weights["up"])
        return mesh_split(x + hidden @ weights["down"], mesh, ["data", None]), None

    def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        # Rematerialised: the backward pass gathers the weights again and keeps no copy.
        out, _ = jax.lax.scan(jax.checkpoint(layer), x, params)
        return jnp.mean((out - y) ** 2)

    @jax.jit
    def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return jax.tree.map(lambda p: mesh_split(p, mesh, [None, "data", None]), params), value

    return step


def inputs(mesh: Mesh) -> tuple[Params, jax.Array, jax.Array]:
    rng = np.random.default_rng(7)

    def put(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.15).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    params = {
        "up": put(P(None, "data"), LAYERS, 32, 64),
        "down": put(P(None, "data"), LAYERS, 64, 32),
    }
    return params, put(P("data"), 32, 32), put(P("data"), 32, 32)


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = Mesh(np.array(devices), ("data",))
    params, x, y = inputs(mesh)
    step = make_step(mesh)
    losses = []
    for _ in range(4):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "up": np.asarray(params["up"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
