"""Tensor parallelism (Megatron): attention heads and the MLP's hidden dimension are split over `model`.

Each half of the block needs one sum over `model` on the way forward, and one on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Params = dict[str, jax.Array]

SPECS = {
    "qkv": P(None, None, "model", None),  # width, (q, k, v), heads, head width
    "out": P("model", None, None),
    "up": P(None, "model"),
    "down": P("model", None),
}


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (2, len(devices) // 2) if len(devices) > 1 else (1, 1)
    return Mesh(np.array(devices).reshape(shape), ("data", "model"))


def normalise(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def block(params: Params, x: jax.Array) -> jax.Array:
    """A Transformer block: [batch, length, width] in and out."""
    q, k, v = jnp.einsum("blw,wchd->cblhd", normalise(x), params["qkv"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("blhd,hdw->blw", mixed, params["out"])
    return x + jax.nn.gelu(normalise(x) @ params["up"]) @ params["down"]


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((block(params, x) - y) ** 2)


@jax.jit
def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def weights(seed: int, width: int = 32, heads: int = 4, hidden: int = 64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    return {
        "qkv": normal(width, 3, heads, width // heads, scale=0.15),
        "out": normal(heads, width // heads, width, scale=0.15),
        "up": normal(width, hidden, scale=0.15),
        "down": normal(hidden, width, scale=0.1),
    }


def inputs(devices: Sequence[Any]) -> tuple[Params, jax.Array, jax.Array]:
    mesh = make_mesh(devices)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 16, 32)).astype(np.float32)
    y = rng.standard_normal((8, 16, 32)).astype(np.float32)
    shardings = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    batch = NamedSharding(mesh, P("data"))
    return (
        jax.device_put(weights(0), shardings),
        jax.device_put(x, batch),
        jax.device_put(y, batch),
    )


def run(devices: Sequence[Any]) -> dict[str, Any]:
    params, x, y = inputs(devices)
    losses = []
    for _ in range(4):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "down": np.asarray(params["down"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
