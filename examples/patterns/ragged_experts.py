"""Mixture of experts without capacities: `lax.ragged_dot` over groups of tokens of any size.

Tokens are sorted by expert; every device multiplies them with its slice of all experts' weights, so no
token is dropped and experts may get any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

EXPERTS = 4


def mixture(router: jax.Array, up: jax.Array, down: jax.Array, x: jax.Array) -> jax.Array:
    """[token, width] in and out."""
    expert = jnp.argmax(x @ router, axis=-1)
    order = jnp.argsort(expert)
    sizes = jnp.sum(jax.nn.one_hot(expert, EXPERTS, dtype=jnp.int32), axis=0)
    hidden = jax.nn.relu(jax.lax.ragged_dot(x[order], up, sizes))
    made = jax.lax.ragged_dot(hidden, down, sizes)
    return jnp.zeros_like(made).at[order].set(made)


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = Mesh(np.array(devices), ("model",))
    rng = np.random.default_rng(4)

    def normal(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    router = normal(P(), 16, EXPERTS)
    up = normal(P(None, None, "model"), EXPERTS, 16, 32)
    down = normal(P(None, "model", None), EXPERTS, 32, 16)
    x = normal(P(), 48, 16)
    return {"y": np.asarray(jax.jit(mixture)(router, up, down, x))}


if __name__ == "__main__":
    print(run(jax.devices())["y"].sum())
