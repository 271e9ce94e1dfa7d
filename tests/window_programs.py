"""Programs for spmd_oracle.py: windowed and position-shifting operators along a sharded dimension."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from spmd_oracle import twin

Case = Callable[[], Any]
Program = Callable[..., Any]

SEED = int(os.environ.get("SPMD_SEED", "7"))
FULL = os.environ.get("SPMD_FULL") == "1"
SPECS = [P("x"), P("y"), P(("x", "y")), P(("y", "x")), P("y", "x"), P(None, "y")]


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))


def check(fn: Program, args: list[np.ndarray], spec: P, tolerance: float = 1e-5) -> str:
    """`fn` of arguments constrained to `spec`, its results constrained to it too; returns the text."""
    m = mesh()

    def held(v: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(v, NamedSharding(m, P(*spec[: v.ndim])))

    def sharded(*values: jax.Array) -> Any:
        return jax.tree.map(held, fn(*[held(v) for v in values]))

    out = jax.tree.map(lambda _: P(), jax.eval_shape(fn, *args))
    return twin(sharded, args, mesh=m, out=out, tolerance=tolerance, reference=fn)


class Draw:
    """Random sizes and values; the seed is part of every error."""

    def __init__(self, name: str, number: int):
        self.label = f"SPMD_SEED={SEED}, draw {number} of {name}"
        self.random = random.Random(f"{SEED} {name} {number}")
        self.numbers = np.random.default_rng(self.random.randrange(1 << 30))

    def size(self, low: int = 1, high: int = 26) -> int:
        return self.random.choice(
            [self.random.randint(low, high), *(s for s in (8, 16) if s >= low)]
        )

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def f32(self, *shape: int) -> np.ndarray:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def i32(self, *shape: int) -> np.ndarray:
        return self.numbers.integers(-50, 50, shape).astype(np.int32)


def draw_slice(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(2)
    start = d.below(n)
    limit = start + 1 + d.below(n - start)
    step = d.one(1, 1, 2, 3)
    return lambda a: lax.slice(a, (start, 0), (limit, 6), (step, 1)), [d.f32(n, 6)]


def draw_slice_both(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n, k = d.size(4), d.size(4)
    return lambda a: a[1:-1:2, 2:-1], [d.i32(n, k)]


def draw_pad(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size()
    interior = d.one(0, 0, 1, 2)
    inside = n + (n - 1) * interior
    low = d.random.randint(-(inside // 2), 5)
    high = d.random.randint(-((inside - 1) // 2), 5)
    if inside + low + high <= 0:
        high = 1 - inside - low
    columns = d.one((0, 0, 0), (1, 0, 0), (0, -1, 1))
    return lambda a: lax.pad(a, 2.5, ((low, high, interior), columns)), [d.f32(n, 6)]


def draw_reverse(d: Draw) -> tuple[Program, list[np.ndarray]]:
    dims = d.one((0,), (0, 1))
    return lambda a: lax.rev(a, dims), [d.f32(d.size(), 7)]


def draw_concatenate(d: Draw) -> tuple[Program, list[np.ndarray]]:
    parts = [d.f32(d.size(), 6) for _ in range(d.one(2, 2, 3))]
    zeros = d.one(0, 0, 3)

    def fn(*values: jax.Array) -> jax.Array:
        return jnp.concatenate([*values, jnp.zeros((zeros, 6), jnp.float32), values[0]])

    return fn, parts


def draw_roll(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(2)
    by = d.below(2 * n) - n
    return lambda a: jnp.roll(a, by, 0), [d.f32(n, 6)]


def draw_jnp_pad(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(4)
    mode = d.one("wrap", "edge", "reflect", "symmetric")
    low, high = 1 + d.below(3), d.below(3)
    return lambda a: jnp.pad(a, ((low, high), (0, 0)), mode), [d.f32(n, 6)]


def draw_shift(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(3)
    by = 1 + d.below(2)

    def fn(a: jax.Array) -> jax.Array:
        before = jnp.concatenate([jnp.zeros((by, 6), a.dtype), a[:-by]])
        return before + jnp.pad(a[by:], ((0, by), (0, 0)))

    return fn, [d.f32(n, 6)]


def draw_difference(d: Draw) -> tuple[Program, list[np.ndarray]]:
    return lambda a: (jnp.diff(a, axis=0), a[1:] * a[:-1]), [d.i32(d.size(2), 6)]


def window_of(d: Draw, size: int) -> tuple[int, int, int, int, tuple[int, int]]:
    """Window, stride, base and window dilation, padding of one dimension that leaves some result."""
    base, dilation = d.one(1, 1, 1, 2, 3), d.one(1, 1, 2)
    stride = d.one(1, 1, 2, 3)
    inside = (size - 1) * base + 1
    window = d.random.randint(1, max(1, min(5, inside // dilation)))
    reach = (window - 1) * dilation + 1
    low, high = d.random.randint(-1, 4), d.random.randint(-1, 4)
    if inside + low + high < reach:
        low, high = reach, reach
    return window, stride, base, dilation, (low, high)


def draw_reduce_window(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n, k = d.size(3), 7
    w = [window_of(d, n), window_of(d, k) if d.below(2) else (1, 1, 1, 1, (0, 0))]
    windows, strides, base, dilation, padding = (tuple(v) for v in zip(*w, strict=True))
    reducer, init = d.one((lax.add, 0.0), (lax.max, -np.inf), (lax.mul, 1.0))
    if windows == (1, 1):  # XLA's simplifier ends the process where such a window drops elements
        padding = tuple((max(low, 0), max(high, 0)) for low, high in padding)

    def fn(a: jax.Array) -> jax.Array:
        return lax.reduce_window(
            a, np.float32(init), reducer, windows, strides, padding, base, dilation
        )

    return fn, [d.f32(n, k)]


def argmax_of_pairs(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The greater value and its index; of equal ones the lesser index."""
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])


def draw_argmax_window(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(4)
    window, stride = d.one(2, 3, n), d.one(1, 2)
    low = d.one(0, 1, window - 1)

    def fn(a: jax.Array) -> Any:
        index = lax.broadcasted_iota(jnp.int32, a.shape, 0)
        none = (np.int32(-(2**31)), np.int32(2**31 - 1))
        return lax.reduce_window(
            (a, index), none, argmax_of_pairs, (window, 1), (stride, 1), ((low, 1), (0, 0))
        )

    return fn, [d.i32(n, 6)]


def draw_cumulative(d: Draw) -> tuple[Program, list[np.ndarray]]:
    f = d.one(lax.cumsum, lax.cummax, lax.cumprod, lax.cummin, lax.cumlogsumexp)
    axis, reverse = d.one(0, 0, 1), d.one(False, True)
    return lambda a: f(a, axis, reverse=reverse), [d.f32(d.size(), d.size()) * 0.5]


def draw_cumulative_argmax(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n = d.size(2)
    padding = d.one((n - 1, 0), (0, n - 1))

    def fn(a: jax.Array) -> Any:
        index = lax.broadcasted_iota(jnp.int32, a.shape, 0)
        none = (np.int32(-(2**31)), np.int32(2**31 - 1))
        return lax.reduce_window(
            (a, index), none, argmax_of_pairs, (n, 1), (1, 1), (padding, (0, 0))
        )

    return fn, [d.i32(n, 6)]


def draw_associative_scan(d: Draw) -> tuple[Program, list[np.ndarray]]:
    reverse = d.one(False, True)

    def fn(a: jax.Array, b: jax.Array) -> Any:
        def step(p: tuple[Any, Any], q: tuple[Any, Any]) -> tuple[Any, Any]:
            return p[0] * q[0], q[0] * p[1] + q[1]

        return lax.associative_scan(step, (a, b), reverse=reverse)

    n = d.size(2)
    return fn, [d.f32(n, 5) * 0.5, d.f32(n, 5)]


def draw_pool_gradient(d: Draw) -> tuple[Program, list[np.ndarray]]:
    n, k = d.size(5), d.size(5)
    window = (d.one(2, 3), d.one(1, 2))
    strides = (d.one(1, 2, 3), d.one(1, 2))
    reducer, init = d.one((lax.max, -np.inf), (lax.max, -np.inf), (lax.add, 0.0))
    padding = d.one("SAME", "VALID")

    def fn(a: jax.Array) -> jax.Array:
        def loss(v: jax.Array) -> jax.Array:
            pooled = lax.reduce_window(v, np.float32(init), reducer, window, strides, padding)
            return (pooled * jnp.arange(pooled.size).reshape(pooled.shape)).sum()

        return jax.grad(loss)(a)

    return fn, [d.f32(n, k)]


def convolution(d: Draw, grouped: str = "") -> tuple[Program, list[np.ndarray], P, P]:
    """A random 2-D convolution in NHWC, its operands, and random splits of them."""
    batch, features, out = d.one(4, 6), d.one(4, 8), d.one(4, 8)
    spatial, kernel, strides, padding, base, dilation = [], [], [], [], [], []
    for high in (22, 10):
        n = d.random.randint(5, high)
        k, s, b, w = d.one(1, 2, 3, 3), d.one(1, 1, 2), d.one(1, 1, 2, 3), d.one(1, 1, 2)
        spatial.append(n)
        kernel.append(k)
        strides.append(s)
        padding.append((d.random.randint(-1, 3), d.random.randint(-1, 3)))
        base.append(b)
        dilation.append(w)
    groups = {"features": {"feature_group_count": 4}, "batch": {"batch_group_count": 2}}
    shape = (*kernel, 1 if grouped == "features" else features, out)
    if grouped == "features":
        features = 4

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            w,
            strides,
            padding,
            base,
            dilation,
            ("NHWC", "HWIO", "NHWC"),
            **groups.get(grouped, {}),
        )

    image = P(
        *d.one(
            (None, "y"),
            (None, "x", "y"),
            ("x", "y"),
            (None, ("x", "y")),
            (None, "y", None, "x"),
            ("y", None, None, "x"),
            (None, None, "x", "y"),
        )
    )
    weights = P(*d.one((), (None, None, None, "y"), (None, None, "x"), (None, None, "x", "y")))
    return fn, [d.f32(batch, *spatial, features), d.f32(*shape)], image, weights


def convolve(d: Draw) -> None:
    """Forward and both gradients, operands and results split at random."""
    fn, args, image, weights = convolution(d, d.one("", "", "features", "batch"))
    m = mesh()

    def held(v: jax.Array, spec: P) -> jax.Array:
        return lax.with_sharding_constraint(v, NamedSharding(m, spec))

    def gradients(x: jax.Array, w: jax.Array, split: bool) -> Any:
        if split:
            x, w = held(x, image), held(w, weights)

        def loss(x: jax.Array, w: jax.Array) -> jax.Array:
            y = fn(x, w)
            y = held(y, image) if split else y
            return (y * jnp.cos(jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape))).sum()

        dx, dw = jax.grad(loss, (0, 1))(x, w)
        y = fn(x, w)
        return (held(y, image), held(dx, image), held(dw, weights)) if split else (y, dx, dw)

    twin(
        lambda x, w: gradients(x, w, True),
        args,
        mesh=m,
        out=(P(), P(), P()),
        tolerance=2e-4,
        reference=lambda x, w: gradients(x, w, False),
    )


def convolution_that_drops() -> None:
    """Padding that drops elements on one side and adds some on the other: XLA's CPU reads past the image."""

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        padding = ((1, 1), (-1, 1))
        return lax.conv_general_dilated(
            x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    d = Draw("convolution_that_drops", 0)
    args = [d.f32(2, 16, 6, 8), d.f32(3, 1, 8, 4)]
    for spec in (P(), P(None, "y"), P("x", "y"), P(None, None, "x")):
        twin(fn, args, [spec, P()], out=spec, tolerance=1e-4, mesh=mesh())


DRAWS = {
    name.removeprefix("draw_"): (fn, count)
    for name, fn, count in [
        ("draw_slice", draw_slice, 5),
        ("draw_slice_both", draw_slice_both, 2),
        ("draw_pad", draw_pad, 6),
        ("draw_reverse", draw_reverse, 3),
        ("draw_concatenate", draw_concatenate, 4),
        ("draw_roll", draw_roll, 3),
        ("draw_jnp_pad", draw_jnp_pad, 3),
        ("draw_shift", draw_shift, 2),
        ("draw_difference", draw_difference, 2),
        ("draw_reduce_window", draw_reduce_window, 6),
        ("draw_argmax_window", draw_argmax_window, 2),
        ("draw_cumulative", draw_cumulative, 4),
        ("draw_cumulative_argmax", draw_cumulative_argmax, 2),
        ("draw_associative_scan", draw_associative_scan, 2),
        ("draw_pool_gradient", draw_pool_gradient, 4),
    ]
}


def drawn(name: str) -> Case:
    draw, count = DRAWS[name]

    def run() -> None:
        for number in range(20 * count if FULL else count):
            d = Draw(name, number)
            fn, args = draw(d)
            spec = d.one(*SPECS)
            try:
                check(fn, args, spec, tolerance=1e-4)
            except Exception as error:
                shapes = [a.shape for a in args]
                raise AssertionError(f"{d.label}: {shapes} under {spec}: {error}") from error

    return run


def convolutions() -> None:
    """Convolutions and their gradients."""
    for number in range(200 if FULL else 8):
        d = Draw("convolutions", number)
        try:
            convolve(d)
        except Exception as error:
            raise AssertionError(f"{d.label}: {error}") from error


def cases() -> dict[str, Case]:
    """By name, each a few random programs of one family; SPMD_FULL=1 draws twenty times as many."""
    return {f"window_{name}": drawn(name) for name in DRAWS} | {
        "convolutions": convolutions,
        "convolution_that_drops": convolution_that_drops,
    }
