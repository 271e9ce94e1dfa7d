"""Four patterns in one model: the stages of a pipeline, each a Transformer-like layer whose batch is split
(data), whose hidden dimension is split (tensor), and whose state between the halves is split by sequence.
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

Params = dict[str, jax.Array]

LAYERS, MICROBATCHES, WIDTH, HIDDEN = 2, 4, 16, 32


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (2, len(devices) // 4, 2) if len(devices) >= 4 else (1, 1, 1)
    return Mesh(np.array(devices).reshape(shape), ("stage", "data", "model"))


def make_step(mesh: Mesh) -> Any:
    def layer(p: Params, x: jax.Array) -> jax.Array:
        """[batch, length, width] in and out; within vmap, so the stage is not to be seen here."""
        scores = jnp.einsum("bqw,bkw->bqk", x @ p["query"], x)
        x = x + jnp.einsum("bqk,bkw->bqw", jax.nn.softmax(scores), x)
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]

    def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        # By sequence, where the microbatches wait for their turn.
        x = shardway.mesh_split(x, mesh, [None, "data", "model", None])
        out = shardway.pipeline(layer, params, x, mesh=mesh, axis="stage")
        return jnp.mean((out - y) ** 2)

    @jax.jit
    def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def inputs(mesh: Mesh) -> tuple[Params, jax.Array, jax.Array]:
    rng = np.random.default_rng(11)

    def put(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    params = {
        "query": put(P("stage", None, None), LAYERS, WIDTH, WIDTH),
        "up": put(P("stage", None, "model"), LAYERS, WIDTH, HIDDEN),
        "down": put(P("stage", "model", None), LAYERS, HIDDEN, WIDTH),
    }
    shape = (MICROBATCHES, 4, 8, WIDTH)
    return params, put(P(None, "data"), *shape), put(P(None, "data"), *shape)


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = make_mesh(devices)
    params, x, y = inputs(mesh)
    step = make_step(mesh)
    losses = []
    for _ in range(3):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "up": np.asarray(params["up"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
