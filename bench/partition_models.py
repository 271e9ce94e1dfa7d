"""Whole training steps for bench/partitioner.py: loss, gradients, plain gradient descent, annotated as users do."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from partition_program import CUBE, LINE, XY, YX, Program, all_gather, all_reduce, f32, i32

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import train_lm

Tree = Any


def step(loss: Callable[..., jax.Array]) -> Callable[..., Any]:
    """One step of gradient descent: (parameters, batch…) → (parameters, loss)."""

    def run(params: Tree, *batch: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g.astype(p.dtype), params, gradients), value

    return run


def pinned(mesh: Mesh, v: jax.Array, *axes: Any) -> jax.Array:
    return lax.with_sharding_constraint(v, NamedSharding(mesh, P(*axes)))


def size(tree: Tree) -> float:
    return float(sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(tree)))


def training(
    name: str,
    loss: Callable[[Mesh], Callable[..., jax.Array]],
    params: Callable[[], Tree],
    specs: Tree,
    batch: Callable[[], list[Any]],
    batch_specs: list[P],
    axes: dict[str, int],
    bound: float,
    tolerance: float = 2e-3,
) -> Program:
    return Program(
        name,
        lambda mesh: step(loss(mesh)),
        lambda: [params(), *batch()],
        [specs, *batch_specs],
        (specs, P()),
        axes,
        bound,
        tolerance,
    )


def replicated(params: Callable[[], Tree]) -> Tree:
    return jax.tree.map(lambda _: P(), params())


# ---- MLP ----


def mlp_params() -> Tree:
    return {"b": f32(1024), "down": f32(1024, 256, scale=0.03), "up": f32(256, 1024, scale=0.06)}


def mlp_loss(_: Mesh) -> Callable[..., jax.Array]:
    def loss(p: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        h = jax.nn.gelu(x @ p["up"] + p["b"])
        return jnp.mean((h @ p["down"] - y) ** 2)

    return loss


def mlps() -> list[Program]:
    weights = size(mlp_params())
    batch = lambda: [f32(512, 256), f32(512, 256, seed=1)]  # noqa: E731
    activations = 512 * 256 * 4.0

    def one(name: str, specs: Tree, batch_spec: P, axes: dict[str, int], bound: float) -> Program:
        return training(name, mlp_loss, mlp_params, specs, batch, [batch_spec] * 2, axes, bound)

    megatron = {"b": P("y"), "down": P("y"), "up": P(None, "y")}
    return [
        one("mlp_data", replicated(mlp_params), P("x"), LINE, all_reduce(weights, 8)),
        one(
            "mlp_fsdp",
            {"b": P("x"), "down": P("x"), "up": P("x")},
            P("x"),
            LINE,
            2 * all_gather(weights, 8),
        ),
        one(
            "mlp_megatron",
            {"b": P("x"), "down": P("x"), "up": P(None, "x")},
            P(),
            LINE,
            all_reduce(activations, 8),
        ),
        one(
            "mlp_data_model",
            megatron,
            P("x"),
            XY,
            all_reduce(weights / 4, 2) + all_reduce(activations / 2, 4),
        ),
        one(
            "mlp_data_model_yx",
            megatron,
            P("x"),
            YX,
            all_reduce(weights / 2, 4) + all_reduce(activations / 4, 2),
        ),
        one(
            "mlp_2d",
            {"b": P("y"), "down": P("y", "x"), "up": P("x", "y")},
            P("x"),
            XY,
            2 * all_gather(weights / 4, 2) + all_reduce(activations / 2, 4),
        ),
    ]


# ---- the demo's language model ----


def lm(name: str, axes: dict[str, int], model: train_lm.Model, bound: float) -> Program:
    return training(
        name,
        lambda mesh: (
            lambda p, b: train_lm.mean_loss(p, b, NamedSharding(mesh, P("data", None, None)))
        ),
        lambda: jax.device_get(jax.jit(train_lm.init, static_argnums=1)(jax.random.key(0), model)),
        train_lm.parameter_specs(),
        lambda: [i32(16, model.context + 1, high=model.vocabulary)],
        [P("data")],
        axes,
        bound,
    )


def lms() -> list[Program]:
    model = train_lm.Model(width=128, layers=2, hidden=512, context=64, heads=8)
    layer = (4 * 128 * 128 + 2 * 128 * 512) * 4.0
    table = 256 * 128 * 4.0

    def bound(data: int, heads: int) -> float:
        activations = 16 / data * 64 * 128 * 4
        tensor = all_reduce(activations, heads) * (2 * 2 * 2 + 2) if heads > 1 else 0
        gradient = all_reduce((2 * layer + table) / heads, data) if data > 1 else 0
        return tensor + gradient

    return [
        lm("lm_data_model", {"data": 2, "model": 4}, model, bound(2, 4)),
        lm("lm_data", {"data": 8, "model": 1}, model, bound(8, 1)),
        lm("lm_model", {"data": 1, "model": 8}, model, bound(1, 8)),
    ]


# ---- ResNet block and U-Net ----


def conv(x: jax.Array, w: jax.Array, stride: int = 1) -> jax.Array:
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Batch normalization, as in training."""
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def resnet_params() -> Tree:
    c = 32
    return {
        "a": f32(3, 3, c, c, scale=0.06),
        "b": f32(3, 3, c, c, scale=0.06, seed=1),
        "head": f32(c, 16, scale=0.2),
        "sa": 1 + f32(c, scale=0.1),
        "sb": 1 + f32(c, scale=0.1, seed=1),
    }


def resnet_loss(_: Mesh) -> Callable[..., jax.Array]:
    def loss(p: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        h = jax.nn.relu(norm(conv(x, p["a"]), p["sa"]))
        h = jax.nn.relu(norm(conv(h, p["b"]), p["sb"]) + x)
        scores = h.mean((1, 2)) @ p["head"]
        return jnp.mean(
            jax.nn.logsumexp(scores, -1) - jnp.take_along_axis(scores, y[:, None], 1)[:, 0]
        )

    return loss


def unet_params() -> Tree:
    c = 16
    return {
        "down1": f32(3, 3, c, c, scale=0.08),
        "down2": f32(3, 3, c, 2 * c, scale=0.08),
        "mid": f32(3, 3, 2 * c, 2 * c, scale=0.06),
        "out": f32(3, 3, 2 * c, c, scale=0.06),
        "up": f32(2, 2, 2 * c, c, scale=0.1),
    }


def unet(p: Tree, x: jax.Array) -> jax.Array:
    h1 = jax.nn.silu(conv(x, p["down1"]))
    h2 = jax.nn.silu(conv(h1, p["down2"], 2))
    h2 = jax.nn.silu(conv(h2, p["mid"]))
    up = lax.conv_transpose(h2, p["up"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return conv(jnp.concatenate([h1, up], -1), p["out"])


def unet_loss(_: Mesh) -> Callable[..., jax.Array]:
    return lambda p, x, y: jnp.mean((unet(p, x) - y) ** 2)


def diffusion_loss(_: Mesh) -> Callable[..., jax.Array]:
    """Denoising: predict the noise that was mixed into an image at a random time."""

    def loss(p: Tree, x: jax.Array, seed: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(seed)
        t = jax.random.uniform(jax.random.fold_in(key, 0), (x.shape[0], 1, 1, 1))
        noise = jax.random.normal(jax.random.fold_in(key, 1), x.shape)
        mixed = jnp.cos(t * math.pi / 2) * x + jnp.sin(t * math.pi / 2) * noise
        return jnp.mean((unet(p, mixed) - noise) ** 2)

    return loss


def images() -> list[Program]:
    weights, unet_weights = size(resnet_params()), size(unet_params())
    labels = lambda: [f32(16, 32, 32, 32), i32(16, high=16)]  # noqa: E731
    pictures = lambda: [f32(8, 32, 32, 16), f32(8, 32, 32, 16, seed=1)]  # noqa: E731
    stats = 32 * 4.0
    features = {
        "a": P(None, None, None, "y"),
        "b": P(None, None, "y"),
        "head": P(),
        "sa": P("y"),
        "sb": P(),
    }
    return [
        training(
            "resnet_data",
            resnet_loss,
            resnet_params,
            replicated(resnet_params),
            labels,
            [P("x"), P("x")],
            LINE,
            all_reduce(weights + 8 * stats, 8),
        ),
        training(
            "resnet_spatial",
            resnet_loss,
            resnet_params,
            replicated(resnet_params),
            labels,
            [P(None, "x"), P()],
            LINE,
            all_reduce(weights + 8 * stats, 8) + 4 * 2 * 16 * 32 * 32 * 4 * 7 / 8,
        ),
        training(
            "resnet_data_features",
            resnet_loss,
            resnet_params,
            features,
            labels,
            [P("x"), P("x")],
            XY,
            all_reduce(weights / 4 + 8 * stats / 4, 2) + all_reduce(8 * 32 * 32 * 32 * 4, 4),
        ),
        training(
            "unet_data",
            unet_loss,
            unet_params,
            replicated(unet_params),
            pictures,
            [P("x"), P("x")],
            LINE,
            all_reduce(unet_weights, 8),
        ),
        training(
            "unet_spatial",
            unet_loss,
            unet_params,
            replicated(unet_params),
            pictures,
            [P(None, "x"), P(None, "x")],
            {"x": 4},
            all_reduce(unet_weights, 4),
        ),
        training(
            "unet_data_spatial",
            unet_loss,
            unet_params,
            replicated(unet_params),
            pictures,
            [P("x", "y"), P("x", "y")],
            XY,
            all_reduce(unet_weights, 8),
        ),
        training(
            "diffusion_data",
            diffusion_loss,
            unet_params,
            replicated(unet_params),
            lambda: [f32(8, 32, 32, 16), jax.device_get(jax.random.key_data(jax.random.key(1)))],
            [P("x"), P()],
            LINE,
            all_reduce(unet_weights, 8),
        ),
        training(
            "diffusion_zero",
            diffusion_loss,
            unet_params,
            jax.tree.map(lambda a: P(None, None, "x"), unet_params()),
            lambda: [f32(8, 32, 32, 16), jax.device_get(jax.random.key_data(jax.random.key(1)))],
            [P("x"), P()],
            LINE,
            2 * all_gather(unet_weights, 8),
        ),
    ]


# ---- Transformers: ViT, and one with experts ----


def attention(x: jax.Array, p: Tree) -> jax.Array:
    q, k, v = (jnp.einsum("bsd,dhk->bshk", x, p[n]) for n in ("q", "k", "v"))
    probs = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", q, k) / math.sqrt(q.shape[-1]), -1)
    return jnp.einsum("bhst,bthk,hkd->bsd", probs, v, p["o"])


def layer_norm(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def vit_params() -> Tree:
    d, h, k, f = 128, 8, 16, 256
    return {
        "down": f32(f, d, scale=0.06),
        "head": f32(d, 16, scale=0.1),
        "k": f32(d, h, k, scale=0.09),
        "o": f32(h, k, d, scale=0.09),
        "patch": f32(4 * 4 * 3, d, scale=0.14),
        "q": f32(d, h, k, scale=0.09, seed=1),
        "up": f32(d, f, scale=0.09),
        "v": f32(d, h, k, scale=0.09, seed=2),
    }


def vit_specs(*, model: str | None, zero: str | None = None) -> Tree:
    return {
        "down": P(model, zero),
        "head": P(),
        "k": P(zero, model),
        "o": P(model, None, zero),
        "patch": P(None, zero),
        "q": P(zero, model),
        "up": P(zero, model),
        "v": P(zero, model),
    }


def vit_loss(_: Mesh) -> Callable[..., jax.Array]:
    def loss(p: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        b, s, _, c = x.shape
        patches = x.reshape(b, s // 4, 4, s // 4, 4, c).transpose(0, 1, 3, 2, 4, 5)
        h = patches.reshape(b, (s // 4) ** 2, 16 * c) @ p["patch"]
        h = h + attention(layer_norm(h), p)
        h = h + jax.nn.gelu(layer_norm(h) @ p["up"]) @ p["down"]
        scores = layer_norm(h).mean(1) @ p["head"]
        return jnp.mean(
            jax.nn.logsumexp(scores, -1) - jnp.take_along_axis(scores, y[:, None], 1)[:, 0]
        )

    return loss


def moe_params() -> Tree:
    d, e, f = 128, 8, 256
    return {
        "down": f32(e, f, d, scale=0.06),
        "gate": f32(e, d, f, scale=0.09),
        "router": f32(d, e, scale=0.09),
        "up": f32(e, d, f, scale=0.09, seed=1),
    }


def moe_loss(experts: str) -> Callable[[Mesh], Callable[..., jax.Array]]:
    """Mixtral's block: the two best of eight experts, a fixed capacity, gated MLPs; tokens travel by all-to-all."""

    def build(mesh: Mesh) -> Callable[..., jax.Array]:
        def loss(p: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
            groups, tokens, _ = x.shape
            e = p["router"].shape[1]
            capacity = 2 * tokens // e
            weights, chosen = lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
            mask = jax.nn.one_hot(chosen, e)  # group, token, choice, expert
            order = mask.transpose(0, 2, 1, 3).reshape(groups, 2 * tokens, e)
            place = jnp.cumsum(order, 1) - order
            place = place.reshape(groups, 2, tokens, e).transpose(0, 2, 1, 3)
            slot = jax.nn.one_hot(jnp.sum(place * mask, -1).astype(jnp.int32), capacity)
            dispatch = jnp.einsum("gtke,gtkc->gtec", mask, slot)
            combine = jnp.einsum("gtk,gtke,gtkc->gtec", weights, mask, slot)
            sent = jnp.einsum("gtec,gtd->egcd", dispatch, x)
            sent = pinned(mesh, sent, experts)
            h = jax.nn.silu(jnp.einsum("egcd,edf->egcf", sent, p["gate"]))
            h = h * jnp.einsum("egcd,edf->egcf", sent, p["up"])
            back = jnp.einsum("egcf,efd->egcd", h, p["down"])
            back = pinned(mesh, back, None, experts)
            return jnp.mean((jnp.einsum("gtec,egcd->gtd", combine, back) + x - y) ** 2)

        return loss

    return build


def transformers() -> list[Program]:
    weights = size(vit_params())
    pictures = lambda: [f32(16, 32, 32, 3), i32(16, high=16)]  # noqa: E731
    tokens = lambda: [f32(8, 64, 128), f32(8, 64, 128, seed=1)]  # noqa: E731
    activations = 16 * 64 * 128 * 4.0
    experts = {"down": P("x"), "gate": P("x"), "router": P(), "up": P("x")}
    moved = 8 * 8 * 16 * 128 * 4 / 8  # a device's share of what is sent to the experts
    return [
        training(
            "vit_data",
            vit_loss,
            vit_params,
            replicated(vit_params),
            pictures,
            [P("x"), P("x")],
            LINE,
            all_reduce(weights, 8),
        ),
        training(
            "vit_data_model",
            vit_loss,
            vit_params,
            vit_specs(model="y"),
            pictures,
            [P("x"), P("x")],
            XY,
            all_reduce(weights / 4, 2) + 3 * all_reduce(activations / 2, 4),
        ),
        training(
            "vit_zero3",
            vit_loss,
            vit_params,
            vit_specs(model=None, zero="x"),
            pictures,
            [P("x"), P("x")],
            LINE,
            2 * all_gather(weights, 8),
        ),
        training(
            "vit_zero_model",
            vit_loss,
            vit_params,
            vit_specs(model="y", zero="x"),
            pictures,
            [P("x"), P("x")],
            YX,
            2 * all_gather(weights / 2, 4) + 3 * all_reduce(activations / 4, 2),
        ),
        training(
            "vit_cube",
            vit_loss,
            vit_params,
            vit_specs(model="z", zero="x"),
            pictures,
            [P(("x", "y")), P(("x", "y"))],
            CUBE,
            2 * all_gather(weights / 2, 2) + 3 * all_reduce(activations / 4, 2),
        ),
        training(
            "moe_experts",
            moe_loss("x"),
            moe_params,
            experts,
            tokens,
            [P("x"), P("x")],
            LINE,
            4 * all_gather(moved, 8) + all_reduce(128 * 8 * 4, 8),
        ),
        training(
            "moe_data_experts",
            moe_loss("y"),
            moe_params,
            {"down": P("y"), "gate": P("y"), "router": P(), "up": P("y")},
            tokens,
            [P(("x", "y")), P(("x", "y"))],
            XY,
            4 * all_gather(moved, 4) + all_reduce(size(moe_params()) / 4, 2),
        ),
        training(
            "moe_experts_features",
            moe_loss("x"),
            moe_params,
            {
                "down": P("x", "y"),
                "gate": P("x", None, "y"),
                "router": P(),
                "up": P("x", None, "y"),
            },
            tokens,
            [P("x"), P("x")],
            YX,
            4 * all_gather(2 * moved, 4),
        ),
    ]


# ---- LSTM by scan ----


def lstm_params() -> Tree:
    return {"u": f32(128, 4, 128, scale=0.09), "w": f32(128, 4, 128, scale=0.09, seed=1)}


def lstm_loss(_: Mesh) -> Callable[..., jax.Array]:
    def loss(p: Tree, xs: jax.Array, y: jax.Array) -> jax.Array:
        def cell(carry: Any, x: jax.Array) -> Any:
            h, c = carry
            gates = jnp.einsum("bd,dgk->gbk", x, p["w"]) + jnp.einsum("bd,dgk->gbk", h, p["u"])
            i, f, g, o = gates
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros((xs.shape[1], 128))
        (h, _), _ = lax.scan(cell, (zero, zero), xs)
        return jnp.mean((h - y) ** 2)

    return loss


def lstms() -> list[Program]:
    weights = size(lstm_params())
    batch = lambda: [f32(16, 64, 128), f32(64, 128, seed=1)]  # noqa: E731
    model = {"u": P(None, None, "y"), "w": P(None, None, "y")}
    state = 64 * 128 * 4.0
    return [
        training(
            "lstm_data",
            lstm_loss,
            lstm_params,
            replicated(lstm_params),
            batch,
            [P(None, "x"), P("x")],
            LINE,
            all_reduce(weights, 8),
        ),
        training(
            "lstm_data_model",
            lstm_loss,
            lstm_params,
            model,
            batch,
            [P(None, "x"), P("x")],
            XY,
            all_reduce(weights / 4, 2) + 16 * 2 * all_gather(state / 2, 4),
        ),
        training(
            "lstm_zero",
            lstm_loss,
            lstm_params,
            {"u": P("x"), "w": P("x")},
            batch,
            [P(None, "x"), P("x")],
            LINE,
            2 * all_gather(weights, 8),
        ),
    ]


def models() -> list[Program]:
    return [*mlps(), *lms(), *images(), *transformers(), *lstms()]
