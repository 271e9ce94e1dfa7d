"""Data parallelism: the batch is split, weights are replicated; gradients are summed over the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Params = dict[str, jax.Array]


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(x @ params["up"] + params["bias"])
    return jnp.mean((hidden @ params["down"] - y) ** 2)


@jax.jit
def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def inputs(devices: Sequence[Any]) -> tuple[Params, jax.Array, jax.Array]:
    mesh = Mesh(np.array(devices), ("data",))
    rng = np.random.default_rng(0)
    params = {
        "up": rng.standard_normal((32, 64)).astype(np.float32) / 6,
        "bias": np.zeros(64, np.float32),
        "down": rng.standard_normal((64, 8)).astype(np.float32) / 8,
    }
    x = rng.standard_normal((64, 32)).astype(np.float32)
    y = np.sin(x[:, :8])
    split = NamedSharding(mesh, P("data"))
    return (
        jax.device_put(params, NamedSharding(mesh, P())),
        jax.device_put(x, split),
        jax.device_put(y, split),
    )


def run(devices: Sequence[Any]) -> dict[str, Any]:
    params, x, y = inputs(devices)
    losses = []
    for _ in range(5):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "up": np.asarray(params["up"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
