"""A Conformer block (GSPMD §5.3): two half feed-forwards around attention and a convolution over time,
on a mesh of `data` and `model`.

Heads and hidden dimensions are split over `model`; the depthwise convolution is split over features,
so it needs no neighbour.
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

WIDTH, HEADS, HIDDEN, KERNEL = 32, 4, 64, 7
SPECS = {
    "up1": P(None, "model"),
    "down1": P("model", None),
    "qkv": P(None, None, "model", None),
    "out": P("model", None, None),
    "gate": P(None, None, "model"),
    "depthwise": P(None, None, "model"),
    "pointwise": P("model", None),
    "up2": P(None, "model"),
    "down2": P("model", None),
}
SHAPES = {
    "up1": (WIDTH, HIDDEN),
    "down1": (HIDDEN, WIDTH),
    "qkv": (WIDTH, 3, HEADS, WIDTH // HEADS),
    "out": (HEADS, WIDTH // HEADS, WIDTH),
    "gate": (WIDTH, 2, WIDTH),
    "depthwise": (KERNEL, 1, WIDTH),
    "pointwise": (WIDTH, WIDTH),
    "up2": (WIDTH, HIDDEN),
    "down2": (HIDDEN, WIDTH),
}


def make_mesh(devices: Sequence[Any]) -> Mesh:
    shape = (2, len(devices) // 2) if len(devices) > 1 else (1, 1)
    return Mesh(np.array(devices).reshape(shape), ("data", "model"))


def normalise(x: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-6)


def feed_forward(up: jax.Array, down: jax.Array, x: jax.Array) -> jax.Array:
    return jax.nn.silu(normalise(x) @ up) @ down


def attention(p: Params, x: jax.Array) -> jax.Array:
    q, k, v = jnp.einsum("blw,wchd->cblhd", normalise(x), p["qkv"])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return jnp.einsum("blhd,hdw->blw", mixed, p["out"])


def convolution(p: Params, x: jax.Array) -> jax.Array:
    a, b = jnp.einsum("blw,wgv->gblv", normalise(x), p["gate"])
    gated = a * jax.nn.sigmoid(b)
    over_time = jax.lax.conv_general_dilated(
        gated,
        p["depthwise"],
        (1,),
        "SAME",
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=WIDTH,
    )
    return jax.nn.silu(over_time) @ p["pointwise"]


def block(p: Params, x: jax.Array) -> jax.Array:
    """[batch, time, width] in and out."""
    x = x + 0.5 * feed_forward(p["up1"], p["down1"], x)
    x = x + attention(p, x)
    x = x + convolution(p, x)
    x = x + 0.5 * feed_forward(p["up2"], p["down2"], x)
    return normalise(x)


def loss(p: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((block(p, x) - y) ** 2)


@jax.jit
def step(p: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    value, grads = jax.value_and_grad(loss)(p, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, p, grads), value


def inputs(devices: Sequence[Any]) -> tuple[Params, jax.Array, jax.Array]:
    mesh = make_mesh(devices)
    rng = np.random.default_rng(9)

    def put(spec: P, *shape: int) -> jax.Array:
        a = (rng.standard_normal(shape) * 0.15).astype(np.float32)
        return jax.device_put(a, NamedSharding(mesh, spec))

    params = {name: put(SPECS[name], *shape) for name, shape in SHAPES.items()}
    return params, put(P("data"), 4, 24, WIDTH), put(P("data"), 4, 24, WIDTH)


def run(devices: Sequence[Any]) -> dict[str, Any]:
    params, x, y = inputs(devices)
    losses = []
    for _ in range(3):
        params, value = step(params, x, y)
        losses.append(float(value))
    return {"losses": losses, "depthwise": np.asarray(params["depthwise"])}


if __name__ == "__main__":
    print(run(jax.devices())["losses"])
