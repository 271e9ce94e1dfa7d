"""Trains a byte-level Transformer language model, and samples a few lines from it.

Ordinary JAX and optax. The mesh has two axes: `data`, over the islands (slices) of the devices that
JAX reports, and `model`, over the devices inside an island. Attention heads, the MLP's hidden
dimension and the vocabulary are split over `model`, the batch over `data`. It runs the same on one
device.

The text is the source of Python's standard library; the last tenth of it is held out. Seed and
learning rate are fixed, so two runs of the same length see the same batches and start from the same
weights, whatever the devices.

    python train_lm.py --steps 300 --json result.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SEED = 0
PEAK_LEARNING_RATE = 2e-3

Tree = Any  # a pytree of arrays or of shardings


@dataclasses.dataclass(frozen=True)
class Model:
    """Sizes of the Transformer."""

    vocabulary: int = 256  # bytes
    width: int = 128
    layers: int = 4
    heads: int = 4
    hidden: int = 512
    context: int = 128  # tokens in a training example

    @property
    def head_width(self) -> int:
        return self.width // self.heads


# ---- text ----


def standard_library_text() -> np.ndarray:
    """The bytes of the standard library's sources, one file after the other, in a fixed order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"site-packages", "dist-packages", "__pycache__", "test", "tests"}
    files = sorted(p for p in root.rglob("*.py") if not skipped & set(p.relative_to(root).parts))
    text = np.frombuffer(b"\n".join(p.read_bytes() for p in files), np.uint8)
    if text.size < 1 << 20:
        raise SystemExit(
            f"only {text.size} bytes of Python sources under {root}: too few to train on"
        )
    return text


def draw_batch(rng: np.random.Generator, text: np.ndarray, batch: int, context: int) -> np.ndarray:
    """`batch` random windows of the text: int32[batch, context + 1], inputs and targets shifted."""
    starts = rng.integers(0, text.size - context, size=batch)
    return text[starts[:, None] + np.arange(context + 1)].astype(np.int32)


# ---- model ----


def init(key: jax.Array, model: Model) -> Tree:
    """Fresh weights. Every layer's are stacked along a first dimension, for `lax.scan`."""
    keys = jax.random.split(key, 5)

    def normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
        return jax.random.normal(key, shape, jnp.float32) / math.sqrt(fan_in)

    layers, width, heads = model.layers, model.width, model.heads
    residual = 2 * layers  # so that the residual stream keeps its size through the layers
    return {
        "embedding": normal(keys[0], (model.vocabulary, width), width),
        "final_norm": jnp.ones((width,)),
        "layers": {
            "attention_norm": jnp.ones((layers, width)),
            "qkv": normal(keys[1], (layers, width, 3, heads, model.head_width), width),
            "out": normal(keys[2], (layers, heads, model.head_width, width), width * residual),
            "mlp_norm": jnp.ones((layers, width)),
            "up": normal(keys[3], (layers, width, model.hidden), width),
            "down": normal(keys[4], (layers, model.hidden, width), model.hidden * residual),
        },
    }


def parameter_specs() -> Tree:
    """How the weights of `init` lie on the mesh."""
    return {
        "embedding": P("model", None),
        "final_norm": P(),
        "layers": {
            "attention_norm": P(),
            "qkv": P(None, None, None, "model", None),
            "out": P(None, "model", None, None),
            "mlp_norm": P(),
            "up": P(None, None, "model"),
            "down": P(None, "model", None),
        },
    }


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def positions(context: int, width: int) -> jax.Array:
    """Sines and cosines of the position: float32[context, width]."""
    frequency = jnp.exp(jnp.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = jnp.arange(context)[:, None] * frequency[None, :]
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def attention(x: jax.Array, weights: Tree) -> jax.Array:
    """Multi-head attention of each position to itself and those before it."""
    q, k, v = jnp.einsum("bsd,dchk->cbhsk", x, weights["qkv"])
    scores = jnp.einsum("bhsk,bhtk->bhst", q, k) / math.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    mixed = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhst,bhtk,hkd->bsd", mixed, v, weights["out"])


def mlp(x: jax.Array, weights: Tree) -> jax.Array:
    return jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def logits(params: Tree, tokens: jax.Array, activations: NamedSharding) -> jax.Array:
    """Scores of every next byte: float32[batch, context, vocabulary]."""

    @jax.checkpoint
    def layer(x: jax.Array, weights: Tree) -> tuple[jax.Array, None]:
        x = x + attention(rms_norm(x, weights["attention_norm"]), weights)
        x = x + mlp(rms_norm(x, weights["mlp_norm"]), weights)
        return jax.lax.with_sharding_constraint(x, activations), None

    embedding = params["embedding"]
    width = embedding.shape[1]
    x = embedding[tokens] * math.sqrt(width) + positions(tokens.shape[1], width)
    x = jax.lax.with_sharding_constraint(x, activations)
    x, _ = jax.lax.scan(layer, x, params["layers"])
    return rms_norm(x, params["final_norm"]) @ embedding.T


def mean_loss(params: Tree, batch: jax.Array, activations: NamedSharding) -> jax.Array:
    """Mean cross-entropy, in nats a byte, of predicting each byte from those before it."""
    inputs, targets = batch[:, :-1], batch[:, 1:]
    scores = logits(params, inputs, activations)
    # A one-hot product instead of a lookup: it needs no gather where the vocabulary is split.
    target_scores = jnp.sum(scores * jax.nn.one_hot(targets, scores.shape[-1]), axis=-1)
    return jnp.mean(jax.nn.logsumexp(scores, axis=-1) - target_scores)


def sample(
    params: Tree, prompts: jax.Array, key: jax.Array, count: int, activations: NamedSharding
) -> jax.Array:
    """Continues each prompt int32[batch, context] by `count` bytes: int32[batch, count]."""
    batch, context = prompts.shape
    line = jnp.concatenate([prompts, jnp.zeros((batch, count), prompts.dtype)], axis=1)

    def step(i: jax.Array, line: jax.Array) -> jax.Array:
        window = jax.lax.dynamic_slice_in_dim(line, i, context, axis=1)
        scores = logits(params, window, activations)[:, -1]
        drawn = jax.random.categorical(jax.random.fold_in(key, i), scores / 0.7)
        return jax.lax.dynamic_update_slice_in_dim(
            line, drawn[:, None].astype(line.dtype), i + context, axis=1
        )

    return jax.lax.fori_loop(0, count, step, line)[:, context:]


# ---- training ----


def islands(devices: list[jax.Device]) -> int:
    """How many groups of closely linked devices (slices) there are."""
    return len({getattr(d, "slice_index", 0) for d in devices})


def make_mesh(data: int | None) -> Mesh:
    """All devices as data x model, island after island, so that an island's are one `model` row."""
    devices = sorted(jax.devices(), key=lambda d: (getattr(d, "slice_index", 0), d.id))
    data = data or islands(devices)
    if len(devices) % data:
        raise SystemExit(f"{len(devices)} devices can't be split into {data} equal rows")
    return Mesh(np.array(devices).reshape(data, -1), ("data", "model"))


def make_optimizer(steps: int) -> optax.GradientTransformation:
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=PEAK_LEARNING_RATE,
        warmup_steps=min(50, steps),
        decay_steps=max(steps, 51),
        end_value=PEAK_LEARNING_RATE / 10,
    )
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b2=0.98, weight_decay=0.05),
    )


class Progress:
    """A bar with loss and tokens/s: redrawn in place on a terminal, a line now and then elsewhere."""

    def __init__(self, steps: int):
        self.steps = steps
        self.in_place = sys.stderr.isatty()
        self.last = -math.inf

    def show(self, done: int, loss: float, tokens_per_s: float) -> None:
        now = time.monotonic()
        if not self.in_place and done < self.steps and now - self.last < 10:
            return
        self.last = now
        filled = 30 * done // self.steps
        bar = "█" * filled + "·" * (30 - filled)
        start, end = ("\r", "") if self.in_place and done < self.steps else ("\r", "\n")
        if not self.in_place:
            start = ""
        print(
            f"{start}{bar} {done}/{self.steps}  loss {loss:.3f}  {tokens_per_s:,.0f} tokens/s ",
            end=end,
            file=sys.stderr,
            flush=True,
        )


class Placement:
    """Where everything lives on a mesh: parameters, optimizer state, examples, activations."""

    def __init__(self, mesh: Mesh, optimizer: optax.GradientTransformation, model: Model):
        self.replicated = NamedSharding(mesh, P())
        self.rows = NamedSharding(mesh, P("data", None))
        self.activations = NamedSharding(mesh, P("data", None, None))
        self.params: Tree = jax.tree.map(
            lambda spec: NamedSharding(mesh, spec),
            parameter_specs(),
            is_leaf=lambda leaf: isinstance(leaf, P),
        )
        shapes = jax.eval_shape(lambda key: init(key, model), jax.random.key(SEED))
        self.state: Tree = optax.tree_utils.tree_map_params(
            optimizer,
            lambda _, sharding: sharding,
            jax.eval_shape(optimizer.init, shapes),
            self.params,
            transform_non_params=lambda _: self.replicated,
        )


def make_step(optimizer: optax.GradientTransformation, at: Placement) -> jax.stages.Wrapped:
    """The training step: (params, state, batch) -> (params, state, loss), the first two donated."""

    def update(params: Tree, state: Tree, batch: jax.Array) -> tuple[Tree, Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(mean_loss)(params, batch, at.activations)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    return jax.jit(
        update,
        donate_argnums=(0, 1),
        in_shardings=(at.params, at.state, at.rows),
        out_shardings=(at.params, at.state, at.replicated),
    )


def train(args: argparse.Namespace) -> dict[str, Any]:
    model = Model()
    mesh = make_mesh(args.data)
    optimizer = make_optimizer(args.steps)
    at = Placement(mesh, optimizer, model)
    rows, activations = at.rows, at.activations
    params = jax.jit(init, static_argnums=1, out_shardings=at.params)(jax.random.key(SEED), model)
    state = jax.jit(optimizer.init, out_shardings=at.state)(params)
    step = make_step(optimizer, at)
    evaluate = jax.jit(mean_loss, static_argnums=2, out_shardings=at.replicated)
    generate = jax.jit(sample, static_argnums=(3, 4))

    text = standard_library_text()
    training, held_out = np.split(text, [text.size * 9 // 10])
    size = f"{sum(x.size for x in jax.tree.leaves(params)):,} weights"
    print(
        f"{size}, {text.size:,} bytes of text, {len(jax.devices())} {jax.devices()[0].platform} "
        f"devices in {islands(jax.devices())} islands, mesh {dict(mesh.shape)}",
        file=sys.stderr,
    )

    rng = np.random.default_rng(SEED)
    progress = Progress(args.steps)
    losses: list[float] = []
    running: list[jax.Array] = []  # losses of steps that have been started and not read
    timed_from, timed_steps, rate = 0.0, 0, 0.0
    for i in range(1, args.steps + 1):
        batch = draw_batch(rng, training, args.batch, model.context)
        params, state, loss = step(params, state, jax.device_put(batch, rows))
        running.append(loss)
        if i == 1 or i % args.read_every == 0 or i == args.steps:
            losses += [float(x) for x in running]
            running.clear()
            now = time.perf_counter()
            if i == 1:  # compiled by now: time from here
                timed_from = now
            else:
                timed_steps = i - 1
                rate = timed_steps * args.batch * model.context / (now - timed_from)
            progress.show(i, losses[-1], rate)

    rng = np.random.default_rng(SEED + 1)
    checked = [draw_batch(rng, held_out, args.batch, model.context) for _ in range(16)]
    validation = [evaluate(params, jax.device_put(b, rows), activations) for b in checked]
    validation_loss = float(np.mean([float(x) for x in validation]))

    if args.sample_bytes:
        prompts = draw_batch(rng, held_out, args.batch, model.context)[:, :-1]
        drawn = np.asarray(
            generate(
                params,
                jax.device_put(prompts, rows),
                jax.random.key(SEED + 2),
                args.sample_bytes,
                activations,
            )
        )
        print("samples: the end of a prompt | what the model makes of it", file=sys.stderr)
        for prompt, line in zip(prompts[:4, -32:], drawn[:4], strict=True):
            print(f"  {readable(prompt)} | {readable(line)}", file=sys.stderr)

    return {
        "steps": args.steps,
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "validation_loss": validation_loss,
        "tokens_per_s": round(rate),
        "islands": islands(jax.devices()),
        "devices": len(jax.devices()),
        "losses": losses,
    }


def readable(tokens: np.ndarray) -> str:
    return tokens.astype(np.uint8).tobytes().decode("utf-8", "replace").replace("\n", "↵")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=8, help="examples in a step")
    parser.add_argument("--data", type=int, help="rows of the mesh (default: one for each island)")
    parser.add_argument(
        "--read-every", type=int, default=10, help="steps between looks at the loss"
    )
    parser.add_argument(
        "--sample-bytes", type=int, default=64, help="how much to sample; 0: nothing"
    )
    parser.add_argument("--json", type=Path, help="a file for the results")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error("--steps must be at least 1")

    result = train(args)
    if args.json:
        # Whole or not at all: a reader never sees half a file.
        part = args.json.with_suffix(args.json.suffix + ".part")
        part.write_text(json.dumps(result))
        os.replace(part, args.json)
    print(json.dumps({k: v for k, v in result.items() if k != "losses"}))


if __name__ == "__main__":
    main()
