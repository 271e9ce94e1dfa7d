"""Steps of random programs: one function for each family, each adds to a sketch, or nothing.

What an operator's own settings may be is drawn in spmd_random_ops.py; here it is what operators do to
each other's results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from spmd_random_ops import Dims
from spmd_random_sketch import LARGEST, Sketch, Value, squash


def number(v: Value) -> bool:
    return v.signed


def ranked(v: Value) -> bool:
    return v.signed and len(v.dims) > 0


def smooth(s: Sketch) -> Callable[[Value], bool]:
    """What may go where a small difference decides whose gradient it is."""
    return lambda v: ranked(v) and (v.exact or not s.gradient)


def comparable(v: Value) -> bool:
    return ranked(v) and v.exact


def fit(x: jax.Array, dims: Dims) -> jax.Array:
    """`x` summed, broadcast, cut and padded until it has these dimensions."""
    while x.ndim > len(dims):
        x = x.sum(0)
    while x.ndim < len(dims):
        x = x[None]
    for d, size in enumerate(dims):
        if x.shape[d] == 1:
            x = jnp.broadcast_to(x, (*x.shape[:d], size, *x.shape[d + 1 :]))
        x = lax.slice_in_dim(x, 0, min(size, x.shape[d]), axis=d)
        x = jnp.pad(x, [(0, size - x.shape[d] if i == d else 0) for i in range(x.ndim)])
    return x


# ---- element by element ----


def unary(s: Sketch) -> None:
    v = s.pick(ranked)
    name, fn, factor, exact = s.draw.of(
        [
            ("negative", lambda x: -x, 1, True),
            ("2x+1", lambda x: 2 * x + 1, 3, True),
            ("3x", lambda x: 3 * x, 3, True),
            ("where", lambda x: jnp.where(x > 0, x, -2 * x), 2, True),
            ("abs", jnp.abs, 1, True),
            ("clip", lambda x: jnp.clip(x, -2, 3), 3, True),
            (
                "iota",
                lambda x: x + lax.broadcasted_iota(x.dtype, (1, *x.shape), x.ndim)[0],
                16,
                True,
            ),
            (
                "constant",
                lambda x: x * np.arange(x.size, dtype=x.dtype).reshape(x.shape),
                LARGEST,
                True,
            ),
            ("barrier", lambda x: lax.optimization_barrier(x), 1, True),
            ("tanh", lambda x: jnp.tanh(x * 0.25), 1, False),
            ("squash", squash, 1, False),
            ("softmax", lambda x: jax.nn.softmax(x * 1.0), 1, False),
            ("jit", jax.jit(lambda x: x - 1), 1, True),
        ]
    )
    more = LARGEST if name == "iota" else 3
    s.add(f"{name} %{v.index}", lambda _, x: fn(x), [v], lambda b, _: b * factor + more, exact)


def convert(s: Sketch) -> None:
    v = s.pick(lambda v: v.exact)
    to = s.draw.of([np.float32, np.float32, np.int32, np.bool_])
    s.add(f"{to.__name__} %{v.index}", lambda _, x: x.astype(to), [v])


def binary(s: Sketch) -> None:
    a, b = s.pick(number), s.pick(number)
    both = a.exact and b.exact
    name, fn, grow = s.draw.of(
        [
            ("add", jnp.add, lambda a, b: a + b),
            ("subtract", jnp.subtract, lambda a, b: a + b),
            ("multiply", jnp.multiply, lambda a, b: a * b),
            ("maximum", jnp.maximum, max) if both else ("add", jnp.add, lambda a, b: a + b),
            ("select", lambda a, b: jnp.where(a > b, a, b), max)
            if both
            else ("multiply", jnp.multiply, lambda a, b: a * b),
        ]
    )
    summed = math.prod(b.dims)
    s.add(
        f"{name} %{a.index} %{b.index}",
        lambda _, x, y: fn(x, fit(y, x.shape)),
        [a, b],
        lambda x, y, _: grow(x, y * summed),
    )


def choose(s: Sketch) -> None:
    p, a = s.pick(lambda v: v.dtype == np.bool_), s.pick(number)
    if p.dtype == np.bool_:
        s.add(
            f"choose %{p.index} %{a.index}",
            lambda _, p, x: jnp.where(fit(p.astype(jnp.int32), x.shape) > 0, x, -x),
            [p, a],
        )


def outer(s: Sketch) -> None:
    a, b = s.pick(number), s.pick(number)
    if len(a.dims) + len(b.dims) <= 4 and math.prod(a.dims) * math.prod(b.dims) < 1500:
        lift = tuple(range(len(a.dims), len(a.dims) + len(b.dims)))
        s.add(
            f"outer %{a.index} %{b.index}",
            lambda _, x, y: jnp.expand_dims(x, lift) + y,
            [a, b],
            lambda x, y, _: x + y,
        )


# ---- places ----


def transpose(s: Sketch) -> None:
    v = s.pick(ranked)
    order = tuple(int(i) for i in s.draw.rng.permutation(len(v.dims)))
    s.add(f"transpose %{v.index} {order}", lambda _, x: lax.transpose(x, order), [v])


def reshape(s: Sketch) -> None:
    v, d = s.pick(ranked), s.draw
    dims = list(v.dims)
    if len(dims) > 1 and d.chance(0.5):
        at = d.between(0, len(dims) - 2)
        dims[at : at + 2] = [dims[at] * dims[at + 1]]
    else:
        at = d.between(0, len(dims) - 1)
        factor = d.of([f for f in range(1, dims[at] + 1) if dims[at] % f == 0] or [1])
        dims[at : at + 1] = [factor, dims[at] // factor]
    if len(dims) <= 4:
        s.add(f"reshape %{v.index} {dims}", lambda _, x: x.reshape(dims), [v])


def turn(s: Sketch) -> None:
    v, d = s.pick(ranked), s.draw
    axis, shift = d.between(0, len(v.dims) - 1), d.between(-9, 9)
    if d.chance(0.5):
        s.add(f"roll %{v.index} {shift} {axis}", lambda _, x: jnp.roll(x, shift, axis), [v])
    else:
        s.add(f"reverse %{v.index} {axis}", lambda _, x: jnp.flip(x, axis), [v])


def cut(s: Sketch) -> None:
    v, d = s.pick(ranked), s.draw
    start = [d.between(0, n // 2) for n in v.dims]
    limit = [d.between(a + 1, n) for a, n in zip(start, v.dims, strict=True)]
    steps = [d.of([1, 1, 1, 2]) for _ in v.dims]
    s.add(
        f"slice %{v.index} {start} {limit} {steps}",
        lambda _, x: lax.slice(x, start, limit, steps),
        [v],
    )


def pad(s: Sketch) -> None:
    v, d = s.pick(ranked), s.draw
    config = [(d.between(-(n > 2), 2), d.between(0, 2), d.of([0, 0, 1])) for n in v.dims]
    s.add(f"pad %{v.index} {config}", lambda _, x: lax.pad(x, x.dtype.type(2), config), [v])


def concatenate(s: Sketch) -> None:
    a, b, d = s.pick(ranked), s.pick(number), s.draw
    axis = d.between(0, len(a.dims) - 1)
    summed = math.prod(b.dims)
    s.add(
        f"concatenate %{a.index} %{b.index} {axis}",
        lambda _, x, y: (
            jnp.concatenate([x, fit(y, x.shape).astype(x.dtype), x], axis)
            if a.floating or b.exact
            else jnp.concatenate([x, x], axis)
        ),
        [a, b],
        lambda x, y, _: max(x, y * summed),
    )


def place(s: Sketch) -> Value:
    """A scalar integer made of an exact value."""
    v = s.pick(lambda v: v.exact)
    return s.add(
        f"place %{v.index}", lambda _, x: x.sum().astype(jnp.int32) % 9, [v], lambda *_: 9
    )[0]


def dynamic_slice(s: Sketch) -> None:
    v, at, d = s.pick(ranked), place(s), s.draw
    axis = d.between(0, len(v.dims) - 1)
    size = d.between(1, v.dims[axis])

    def start(x: jax.Array, i: jax.Array) -> jax.Array:
        # Within bounds: XLA adds the starts of a slice of a slice as if they always were.
        return jnp.clip(i, 0, x.shape[axis] - size)

    if d.chance(0.5):
        fn = lambda _, x, i: lax.dynamic_slice_in_dim(x, start(x, i), size, axis)  # noqa: E731
        s.add(f"dynamic_slice %{v.index} {size} {axis}", fn, [v, at])
    else:

        def update(_: bool, x: jax.Array, i: jax.Array) -> jax.Array:
            # Not of `x`: XLA's CPU backend writes such updates over what it still has to read.
            part = jnp.full((*x.shape[:axis], size, *x.shape[axis + 1 :]), 3, x.dtype)
            return lax.dynamic_update_slice_in_dim(x, part, start(x, i), axis)

        s.add(f"dynamic_update %{v.index} {size} {axis}", update, [v, at], lambda *b: 2 * b[0])


# ---- reductions, products ----


def reduce(s: Sketch) -> None:
    d = s.draw
    kind = d.of(["sum", "sum", "max", "min", "mean"])
    v = s.pick(ranked if kind in ("sum", "mean") else smooth(s))
    axes = tuple(d.subset(len(v.dims), 1))
    keep = d.chance(0.3)
    s.add(
        f"{kind} %{v.index} {axes}",
        lambda _, x: getattr(jnp, kind)(x, axis=axes, keepdims=keep),
        [v],
        lambda b, _: b * math.prod(v.dims) if kind == "sum" else b,
        kind != "mean",
    )


def arg_reduce(s: Sketch) -> None:
    v = s.pick(comparable)
    axis = s.draw.between(0, len(v.dims) - 1)
    s.add(f"argmax %{v.index} {axis}", lambda _, x: jnp.argmax(x, axis), [v], lambda *_: LARGEST)


def compare(s: Sketch) -> None:
    a, b = s.pick(comparable), s.pick(lambda v: v.exact and v.signed)
    s.add(f"less %{a.index} %{b.index}", lambda _, x, y: x < fit(y, x.shape), [a, b], lambda *_: 1)


def dot(s: Sketch) -> None:
    """With another value that has a dimension in common, or with weights."""
    a, d = s.pick(ranked), s.draw
    n = a.dims[-1]
    b = s.pick(lambda v: v.signed and len(v.dims) in (1, 2, 3) and v.dims[-1] == n)
    if d.chance(0.5) or b.dims[-1:] != (n,):
        b = s.argument((d.between(1, 9), n))
    letters = "abcd"[: len(a.dims) - 1]
    others = "efg"[: len(b.dims) - 1]
    if letters and others and a.dims[0] == b.dims[0] and d.chance(0.5):
        others = letters[0] + others[1:]  # a batch
    out = letters + "".join(c for c in others if c not in letters)
    if len(out) > 3:
        return
    spec = f"{letters}z,{others}z->{''.join(d.rng.permutation(list(out))) if out else ''}"
    s.add(
        f"dot %{a.index} %{b.index} {spec}",
        lambda _, x, y: jnp.einsum(spec, x, y),
        [a, b],
        lambda x, y, _: x * y * n,
    )


def convolution(s: Sketch) -> None:
    v, d = s.pick(lambda v: v.floating and len(v.dims) in (3, 4)), s.draw
    spatial = len(v.dims) - 2
    channels = v.dims[1]
    groups = channels if d.chance(0.3) else 1
    window = tuple(d.between(1, 3) for _ in range(spatial))
    kernel = s.argument((d.between(1, 2) * groups, channels // groups, *window))
    settings: dict[str, Any] = {
        "window_strides": tuple(d.of([1, 1, 2]) for _ in range(spatial)),
        "padding": [(d.between(-1, 2), d.between(0, 2)) for _ in range(spatial)],
        "lhs_dilation": tuple(d.of([1, 1, 2]) for _ in range(spatial)),
        "rhs_dilation": tuple(d.of([1, 1, 2]) for _ in range(spatial)),
        "feature_group_count": groups,
    }
    s.add(
        f"convolution %{v.index} {settings}",
        lambda _, x, w: lax.conv_general_dilated(x, w, **settings),
        [v, kernel],
        lambda x, w, _: x * w * channels * math.prod(window),
    )


def pool(s: Sketch) -> None:
    v, d = s.pick(smooth(s)), s.draw
    if not v.floating:
        return
    init, body = d.of([(0, lax.add), (-np.inf, lax.max)])
    window = tuple(d.between(1, min(3, n)) for n in v.dims)
    strides = tuple(d.between(1, 2) for _ in v.dims)
    padding = d.of(["SAME", "VALID"]) if init == 0 else "VALID"
    s.add(
        f"pool {body.__name__} %{v.index} {window} {strides} {padding}",
        lambda _, x: lax.reduce_window(x, np.float32(init), body, window, strides, padding),
        [v],
        lambda b, _: b * math.prod(window),
    )


def cumulative(s: Sketch) -> None:
    v, d = s.pick(smooth(s)), s.draw
    kind = d.of([lax.cumsum, lax.cumsum, lax.cummax, lax.cummin])
    axis, reverse = d.between(0, len(v.dims) - 1), d.chance(0.5)
    s.add(
        f"{kind.__name__} %{v.index} {axis} {reverse}",
        lambda _, x: kind(x, axis=axis, reverse=reverse),
        [v],
        lambda b, _: b * v.dims[axis],
    )


# ---- by index, by order ----


def take(s: Sketch) -> None:
    v, i = s.pick(ranked), s.pick(lambda v: v.dtype == np.int32 and len(v.dims) < 3)
    axis = s.draw.between(0, len(v.dims) - 1)
    if i.dtype != np.int32 or len(i.dims) + len(v.dims) > 4:
        i = s.argument((s.draw.between(1, 9),), np.int32, -3, 9)
    mode = s.draw.of(["clip", "wrap"])
    s.add(
        f"take %{v.index} %{i.index} {axis} {mode}",
        lambda _, x, i: jnp.take(x, i, axis, mode=mode),
        [v, i],
    )


def take_along(s: Sketch) -> None:
    v = s.pick(comparable)
    axis = s.draw.between(0, len(v.dims) - 1)
    s.add(
        f"in order %{v.index} {axis}",
        lambda _, x: jnp.take_along_axis(x, jnp.argsort(x, axis), axis),
        [v],
    )


def scatter(s: Sketch) -> None:
    v, u, d = s.pick(ranked), s.pick(number), s.draw
    if u.floating and not v.floating:
        u = v
    index = s.argument((d.between(1, 9),), np.int32, -2, 9)
    kind = d.of(["add", "add", "max"]) if v.exact and u.exact else "add"
    dims = (*index.dims, *v.dims[1:])
    summed = math.prod(u.dims) * index.dims[0]
    s.add(
        f"scatter {kind} %{v.index} %{u.index}",
        lambda _, x, u, i: getattr(x.at[i], kind)(fit(u, dims).astype(x.dtype)),
        [v, u, index],
        lambda x, u, *_: x + u * summed,
    )


def sort(s: Sketch) -> None:
    v = s.pick(smooth(s))
    axis, descending = s.draw.between(0, len(v.dims) - 1), s.draw.chance(0.3)
    s.add(f"sort %{v.index} {axis}", lambda _, x: jnp.sort(x, axis, descending=descending), [v])


def sort_pairs(s: Sketch) -> None:
    v, w = s.pick(comparable), s.pick(number)
    axis, summed = s.draw.between(0, len(v.dims) - 1), math.prod(w.dims)
    s.add(
        f"sort_pairs %{v.index} %{w.index} {axis}",
        lambda _, x, y: lax.sort((x, fit(y, x.shape)), dimension=axis, num_keys=1),
        [v, w],
        lambda x, y, _: max(x, y * summed),
    )


def top_k(s: Sketch) -> None:
    v = s.pick(comparable)
    k = s.draw.between(1, v.dims[-1])
    s.add(f"top_k %{v.index} {k}", lambda _, x: lax.top_k(x, k), [v], lambda b, _: b + LARGEST)


def random_numbers(s: Sketch) -> None:
    v, seed = s.pick(number), s.draw.between(0, 99)
    s.add(
        f"random %{v.index} {seed}",
        lambda _, x: x + jax.random.randint(jax.random.key(seed), x.shape, -3, 4).astype(x.dtype),
        [v],
        lambda b, _: b + 3,
    )


def constrain(s: Sketch) -> None:
    v = s.pick()
    spec = s.draw.spec(s.mesh, v.dims)
    s.add(f"constrain %{v.index} {spec}", lambda split, x: s.held(x, spec, split), [v])
