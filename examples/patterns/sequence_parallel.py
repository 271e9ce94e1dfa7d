"""Sequence parallelism: as tensor_parallel.py, but between the halves of a block the sequence is split
over `model`, so that what is elementwise there (norms, residuals) is not done by every device.

The sums become reduce-scatters, and all-gathers bring the sequence together for the matrix products:
as many bytes, less memory and work.
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


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (2, len(devices) // 2) if len(devices) > 1 else (1, 1)
    return Mesh(np.array(devices).reshape(shape), ("data", "model"))


def normalise(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def layer(params: Params, x: jax.Array, mesh: Mesh) -> jax.Array:
    """[batch, length, width] in and out, the length split over `model`."""

    def by_sequence(a: jax.Array) -> jax.Array:
        return mesh_split(a, mesh, ["data", "model", None])

    qkv = jnp.einsum("blw,wchd->cblhd", normalise(x), params["qkv"])
    q, k, v = mesh_split(qkv, mesh, [None, "data", None, "model", None])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    mixed = mesh_split(mixed, mesh, ["data", None, "model", None])
    x = x + by_sequence(jnp.einsum("blhd,hdw->blw", mixed, params["out"]))
    hidden = jax.nn.gelu(normalise(x) @ params["up"])
    hidden = mesh_split(hidden, mesh, ["data", None, "model"])
    return x + by_sequence(hidden @ params["down"])


def make_step(mesh: Mesh) -> Any:
    def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        x = mesh_split(x, mesh, ["data", "model", None])
        return jnp.mean((layer(params, x, mesh) - y) ** 2)

    @jax.jit
    def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def inputs(mesh: Mesh) -> tuple[Params, jax.Array, jax.Array]:
    rng = np.random.default_rng(2)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.15).astype(np.float32)

    params = {
        "qkv": (normal(32, 3, 4, 8), P(None, None, "model", None)),
        "out": (normal(4, 8, 32), P("model", None, None)),
        "up": (normal(32, 64), P(None, "model")),
        "down": (normal(64, 32), P("model", None)),
    }
    x, y = normal(8, 16, 32), normal(8, 16, 32)
    batch = NamedSharding(mesh, P("data"))
    return (
        {name: jax.device_put(a, NamedSharding(mesh, spec)) for name, (a, spec) in params.items()},
        jax.device_put(x, batch),
        jax.device_put(y, batch),
    )


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = make_mesh(devices)
    params, x, y = inputs(mesh)
    step = make_step(mesh)
    losses = []
    for _ in range(4):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "down": np.asarray(params["down"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
