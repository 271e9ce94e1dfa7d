"""Steps of random programs that have programs inside: loops, branches, remat, vmap."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from spmd_random_ops import Dims
from spmd_random_sketch import TAMED, Fn, Sketch, Value, squash, tame
from spmd_random_steps import comparable, fit, ranked


def atom(s: Sketch, dims: Dims, exact: bool, captured: list[Value]) -> Fn:
    """A function of `split`, an array of these dimensions and the captured values, with a result like the array.

    More values may become captured: the function finds them by their place.
    """
    d = s.draw
    kind, at = d.of(["captured", "product", "other", "other"]), len(captured)
    if kind == "captured":
        captured.append(s.pick(lambda v: v.signed and v.exact))
        return lambda _, x, *c: x + fit(tame(c[at]), x.shape).astype(x.dtype)
    if kind == "product":
        captured.append(s.argument((dims[-1], dims[-1])))
        return lambda _, x, *c: (x @ c[at]).astype(x.dtype)
    axis, shift = d.between(0, len(dims) - 1), d.between(-5, 5)
    order, spec = d.rng.permutation(dims[axis]), d.spec(s.mesh, dims)
    others: list[Fn] = [
        lambda _, x, *c: jnp.roll(x, shift, axis),
        lambda _, x, *c: jnp.flip(x, axis) - 1,
        lambda _, x, *c: x + x.sum(axis, keepdims=True),
        lambda _, x, *c: x - lax.cumsum(x, axis),
        lambda _, x, *c: jnp.take(x, order, axis),
        lambda split, x, *c: s.held(2 * x, spec, split),
        lambda split, x, *c: s.held(x, spec, split) + 1,
    ]
    if exact:
        others += [
            lambda _, x, *c: jnp.sort(x, axis),
            lambda _, x, *c: jnp.where(x > 0, x, -2 * x),
            lambda _, x, *c: x + x.max(axis, keepdims=True),
        ]
    return d.of(others)


def body(s: Sketch, dims: Dims, exact: bool, captured: list[Value]) -> Fn:
    """A few of them, one after the other, each tamed."""
    atoms = [atom(s, dims, exact, captured) for _ in range(s.draw.between(1, 3))]
    small = tame if exact else squash

    def run(split: bool, x: jax.Array, *c: jax.Array) -> jax.Array:
        for one in atoms:
            x = small(one(split, x, *c))
        return x

    return run


def numbers(s: Sketch) -> Value:
    """What bodies work on."""
    return s.tamed(s.pick(ranked))


def call(s: Sketch) -> None:
    """A body as it is, under remat, under vmap or as a function of its own."""
    v, captured, kind = numbers(s), list[Value](), s.draw.of(["remat", "vmap", "jit"])
    if kind == "vmap" and len(v.dims) < 2:
        kind = "remat"
    run = body(s, v.dims[1:] if kind == "vmap" else v.dims, v.exact, captured)

    def fn(split: bool, x: jax.Array, *c: jax.Array) -> jax.Array:
        one = lambda x, *c: run(split, x, *c)  # noqa: E731
        if kind == "vmap":
            return jax.vmap(one, in_axes=(0, *(None for _ in c)))(x, *c)
        return (jax.checkpoint(one) if kind == "remat" else jax.jit(one))(x, *c)

    s.add(f"{kind} %{v.index}", fn, [v, *captured], lambda *_: TAMED)


def fori(s: Sketch) -> None:
    v, captured, trips = numbers(s), list[Value](), s.draw.between(1, 4)
    run = body(s, v.dims, v.exact, captured)

    def fn(split: bool, x: jax.Array, *c: jax.Array) -> jax.Array:
        return lax.fori_loop(0, trips, lambda i, x: run(split, x, *c) + i.astype(x.dtype), x)

    s.add(f"fori {trips} %{v.index}", fn, [v, *captured], lambda *_: 2 * TAMED)


def accumulate(s: Sketch) -> None:
    """A loop that only adds what is the same in every round, or linear in its state."""
    v, u, trips = numbers(s), s.pick(lambda v: v.signed and v.bound < 1e5), s.draw.between(1, 4)
    if u.floating and not v.floating:
        u = v
    sign, summed = s.draw.of([1, -1]), math.prod(u.dims)
    product = s.argument((v.dims[-1], 5)) if s.draw.chance(0.5) else None

    def fn(split: bool, x: jax.Array, u: jax.Array, *w: jax.Array) -> Any:
        start: Any = x
        if w:  # a sum of parts, where the last dimension is split
            start = (x, jnp.zeros((*x.shape[:-1], 5), x.dtype))

        def round(_: Any, state: Any) -> Any:
            if not w:
                return state + sign * fit(u, x.shape).astype(x.dtype)
            return state[0], state[1] + sign * (state[0] @ w[0]).astype(x.dtype)

        return lax.fori_loop(0, trips, round, start)

    s.add(
        f"accumulate {trips} %{v.index} %{u.index}",
        fn,
        [v, u, *([product] if product else [])],
        lambda x, u, *_: x * (1 + 4 * 4 * v.dims[-1]) + 4 * u * summed,
    )


def while_(s: Sketch) -> None:
    v, captured = numbers(s), list[Value]()
    if s.gradient or not v.exact:
        return
    run = body(s, v.dims, True, captured)

    def fn(split: bool, x: jax.Array, *c: jax.Array) -> Any:
        return lax.while_loop(
            lambda state: (state[0].sum() % 5 != 0) & (state[1] < 4),
            lambda state: (run(split, state[0], *c), state[1] + 1),
            (x, jnp.int32(0)),
        )

    s.add(f"while %{v.index}", fn, [v, *captured], lambda *_: TAMED)


def scan(s: Sketch) -> None:
    v, captured, reverse = numbers(s), list[Value](), s.draw.chance(0.3)
    if len(v.dims) < 2:
        return
    run, after = (body(s, v.dims[1:], v.exact, captured) for _ in range(2))

    def fn(split: bool, x: jax.Array, *c: jax.Array) -> Any:
        def step(carry: jax.Array, row: jax.Array) -> Any:
            carry = run(split, carry + row, *c)
            return carry, after(split, carry, *c)

        return lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x, reverse=reverse)

    s.add(f"scan %{v.index}", fn, [v, *captured], lambda *_: TAMED)


def cond(s: Sketch) -> None:
    p, v, captured = s.pick(comparable), numbers(s), list[Value]()
    branches = [body(s, v.dims, v.exact, captured) for _ in range(s.draw.between(2, 3))]

    def fn(split: bool, p: jax.Array, x: jax.Array, *c: jax.Array) -> jax.Array:
        which = p.sum().astype(jnp.int32) % len(branches)
        return lax.switch(which, [lambda x, b=b: b(split, x, *c) for b in branches], x)

    s.add(f"cond %{p.index} %{v.index}", fn, [p, v, *captured], lambda *_: TAMED)
