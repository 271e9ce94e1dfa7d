"""Weight-update sharding (ZeRO): three annotations, each of which splits one more part of the state.

1  the optimizer's state        every device updates its part of the weights, then gathers them
2  and the gradients            their sum becomes a reduce-scatter
3  and the weights themselves   gathered where they are used (see fsdp.py for more layers)
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


def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"] - y) ** 2)


def make_step(mesh: Mesh, stage: int) -> Any:
    """A step of Adam, of the given ZeRO stage."""

    def split(tree: Params) -> Params:
        return jax.tree.map(lambda a: mesh_split(a, mesh, ["data", None]), tree)

    def whole(tree: Params) -> Params:
        return jax.tree.map(lambda a: mesh_split(a, mesh, [None, None]), tree)

    @jax.jit
    def step(
        params: Params, m: Params, v: Params, x: jax.Array, y: jax.Array
    ) -> tuple[Params, Params, Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        if stage >= 2:
            grads = split(grads)
        m = split(jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads))
        v = split(jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads))
        update = jax.tree.map(lambda m, v: 0.03 * m / (jnp.sqrt(v) + 1e-6), m, v)
        params = jax.tree.map(lambda p, u: p - u, params, update)
        return (split if stage >= 3 else whole)(params), m, v, value

    return step


def inputs(mesh: Mesh, stage: int) -> tuple[Params, Params, Params, jax.Array, jax.Array]:
    rng = np.random.default_rng(6)

    def put(a: np.ndarray, spec: P) -> jax.Array:
        return jax.device_put(a.astype(np.float32), NamedSharding(mesh, spec))

    shapes = {"up": (32, 64), "down": (64, 16)}
    weights = P("data") if stage >= 3 else P()
    params = {n: put(rng.standard_normal(s) * 0.2, weights) for n, s in shapes.items()}
    m = {n: put(np.zeros(s), P("data")) for n, s in shapes.items()}
    v = {n: put(np.zeros(s), P("data")) for n, s in shapes.items()}
    x = put(rng.standard_normal((32, 32)), P("data"))
    y = put(rng.standard_normal((32, 16)), P("data"))
    return params, m, v, x, y


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = Mesh(np.array(devices), ("data",))
    results: dict[str, Any] = {}
    for stage in (1, 2, 3):
        params, m, v, x, y = inputs(mesh, stage)
        step = make_step(mesh, stage)
        losses = []
        for _ in range(4):
            params, m, v, value = step(params, m, v, x, y)
            losses.append(float(value))
        results[f"losses {stage}"] = losses
        results[f"up {stage}"] = np.asarray(params["up"])
    return results


if __name__ == "__main__":
    print({k: v for k, v in run(jax.devices()).items() if k.startswith("losses")})
