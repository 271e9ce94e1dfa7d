"""Mixture of experts: tokens are split over the devices, and so are the experts; an all-to-all brings
each token to its expert, another one brings it back (GSPMD §5.4, GShard's einsum dispatch).
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

EXPERTS = 8
GROUP = 16  # tokens that are routed together
CAPACITY = 4  # tokens of a group that one expert takes; others pass by


def route(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[group, token, expert] → dispatch and combine weights [group, token, expert, slot]."""
    gates = jax.nn.softmax(logits)
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), EXPERTS, dtype=jnp.float32)
    slot = jnp.cumsum(chosen, axis=1) * chosen - 1
    taken = chosen * (slot < CAPACITY)
    dispatch = taken[..., None] * jax.nn.one_hot(slot.astype(jnp.int32), CAPACITY)
    return dispatch, dispatch * gates[..., None]


def mixture(params: Params, x: jax.Array, mesh: Mesh) -> jax.Array:
    """[group, token, width] in and out, the groups split over `expert`."""
    by_group = ["expert", None, None, None]
    by_expert = [None, "expert", None, None]
    dispatch, combine = route(x @ params["router"])
    sent = jnp.einsum("gtec,gtw->gecw", dispatch, x)
    sent = mesh_split(mesh_split(sent, mesh, by_group), mesh, by_expert)  # the all-to-all
    hidden = jax.nn.relu(jnp.einsum("gecw,ewh->gech", sent, params["up"]))
    made = jnp.einsum("gech,ehw->gecw", hidden, params["down"])
    made = mesh_split(mesh_split(made, mesh, by_expert), mesh, by_group)  # and back
    return jnp.einsum("gtec,gecw->gtw", combine, made)


def make_step(mesh: Mesh) -> Any:
    def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((x + mixture(params, x, mesh) - y) ** 2)

    @jax.jit
    def step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), value

    return step


def inputs(mesh: Mesh) -> tuple[Params, jax.Array, jax.Array]:
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    params = {
        "router": (normal(16, EXPERTS), P()),
        "up": (normal(EXPERTS, 16, 32), P("expert")),
        "down": (normal(EXPERTS, 32, 16), P("expert")),
    }
    x, y = normal(8, GROUP, 16), normal(8, GROUP, 16)
    groups = NamedSharding(mesh, P("expert"))
    return (
        {name: jax.device_put(a, NamedSharding(mesh, spec)) for name, (a, spec) in params.items()},
        jax.device_put(x, groups),
        jax.device_put(y, groups),
    )


def run(devices: Sequence[Any]) -> dict[str, Any]:
    mesh = Mesh(np.array(devices), ("expert",))
    params, x, y = inputs(mesh)
    step = make_step(mesh)
    losses = []
    for _ in range(4):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "up": np.asarray(params["up"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
