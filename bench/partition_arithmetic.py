"""Elementwise operators, reductions, products, sorting, loops, for bench/partitioner.py."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from partition_program import (
    CUBE,
    LINE,
    XY,
    Make,
    Program,
    Tree,
    all_gather,
    all_reduce,
    dot,
    f32,
    movement,
    moves,
    plain,
    uneven,
)


def moves_cum(name: str, fn: Make, spec: P) -> Program:
    split = bool(spec[0])
    bound = 128 * 4.0 if split else 0.0  # a device must hear of the total before it
    return Program(name, plain(fn), lambda: [f32(1024, 128)], [spec], spec, LINE, bound)


def elementwise() -> list[Program]:
    n = 512
    square = float(n * n * 4)
    return [
        Program(
            "add_aligned",
            plain(lambda a, b: a * b + jnp.tanh(a)),
            lambda: [f32(n, n), f32(n, n, seed=1)],
            [P("x", "y"), P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "add_mixed",
            plain(lambda a, b: a * 2 + b),
            lambda: [f32(n, n), f32(n, n, seed=1)],
            [P("x", "y"), P("y", "x")],
            P("x", "y"),
            XY,
            movement(lambda a: a, (n, n), P("y", "x"), P("x", "y"), XY),
        ),
        Program(
            "row_broadcast",
            plain(lambda a, b: a + b),
            lambda: [f32(n, n), f32(n)],
            [P("x", "y"), P("x")],
            P("x", "y"),
            XY,
            movement(lambda a: a, (n,), P("x"), P("y"), XY),
        ),
        moves(
            "reshard_swap",
            lambda a: a * 2,
            (n, n),
            P("x"),
            P(None, "x"),
            LINE,
            reference=lambda a: a,
        ),
        moves(
            "reshard_minor_major",
            lambda a: a * 2,
            (n, n),
            P(("x", "y")),
            P(("y", "x")),
            reference=lambda a: a,
        ),
        moves(
            "reshard_gather_one",
            lambda a: a * 2,
            (n, n),
            P("x", "y"),
            P("x"),
            reference=lambda a: a,
        ),
        moves(
            "reshard_cube",
            lambda a: a * 2,
            (n, n),
            P(("x", "y"), "z"),
            P("z", ("x", "y")),
            CUBE,
            reference=lambda a: a,
        ),
        moves("reshard_shift", lambda a: a * 2, (n, n), P("x", "y"), P("y"), reference=lambda a: a),
        moves(
            "reshard_to_rank3",
            lambda a: a * 2,
            (64, 64, 64),
            P("x", "y"),
            P(None, "x", "y"),
            reference=lambda a: a,
        ),
        Program(
            "reshard_uneven",
            uneven(lambda a: a * 2, P("x"), P(None, "x")),
            lambda: [f32(131, 257)],
            [P()],
            P(),
            LINE,
            movement(lambda a: a, (131, 257), P("x"), P(None, "x"), LINE),
        ),
        Program(
            "reshard_uneven_finer",
            uneven(lambda a: a * 2, P("x"), P(("x", "y"))),
            lambda: [f32(1003, 64)],
            [P()],
            P(),
            XY,
            movement(lambda a: a, (1003, 64), P("x"), P(("x", "y")), XY),
        ),
        Program(
            "bf16_reshard",
            plain(lambda a: a.astype(jnp.bfloat16)),
            lambda: [f32(n, n)],
            [P("x", "y")],
            P("x"),
            XY,
            movement(lambda a: a, (n, n), P("x", "y"), P("x"), XY, itemsize=2),
        ),
        Program(
            "random_normal",
            plain(lambda k: jax.random.normal(jax.random.wrap_key_data(k), (n, n))),
            lambda: [np.array([3, 4], np.uint32)],
            [P()],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "dropout",
            plain(
                lambda k, x: jnp.where(
                    jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, x.shape), x, 0
                )
            ),
            lambda: [np.array([5, 6], np.uint32), f32(n, n)],
            [P(), P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "adamw_zero",
            plain(lambda p, g, m: (p - 0.1 * (0.9 * m + g), 0.9 * m + g)),
            lambda: [f32(n, n), f32(n, n, seed=1), f32(n, n, seed=2)],
            [P(), P("x"), P("x")],
            (P(), P("x")),
            LINE,
            all_gather(square, 8),
        ),
    ]


def reductions() -> list[Program]:
    n = 512

    def reduce(name: str, fn: Make, spec: P, out: Tree, bound: float, args: Any = None) -> Program:
        return Program(name, plain(fn), args or (lambda: [f32(n, n)]), [spec], out, XY, bound)

    row = n * 4.0
    return [
        reduce("sum_all", lambda a: a.sum(), P("x", "y"), P(), all_reduce(4, 8)),
        reduce("sum_rows", lambda a: a.sum(0), P("x", "y"), P("y"), all_reduce(row / 4, 2)),
        reduce("sum_scatter", lambda a: a.sum(0), P("x"), P("x"), all_gather(row, 2)),
        reduce(
            "sum_scatter_both",
            lambda a: a.sum(0),
            P("x", "y"),
            P(("y", "x")),
            all_gather(row / 4, 2),
        ),
        reduce(
            "sum_replicated",
            lambda a: a.sum(0),
            P("x", "y"),
            P(),
            all_gather(row / 4, 2) + all_gather(row, 8),
        ),
        reduce("max_min", lambda a: a.max(0) - a.min(0), P("x"), P(), 2 * all_reduce(row, 2)),
        reduce("argmax", lambda a: a.argmax(0), P("x"), P(), 2 * all_reduce(row, 2)),
        reduce("mean_var", lambda a: a.var(0), P("x"), P(), 2 * all_reduce(row, 2)),
        reduce(
            "softmax_split",
            lambda a: jax.nn.softmax(a),
            P(None, "y"),
            P(None, "y"),
            2 * all_reduce(row, 4),
        ),
        reduce(
            "logsumexp",
            lambda a: jax.nn.logsumexp(a, axis=1),
            P("x", "y"),
            P("x"),
            2 * all_reduce(row / 2, 4),
        ),
        Program(
            "sum_of_two",
            plain(lambda a, b: a.sum(0) + 2 * b.sum(0)),
            lambda: [f32(n, n), f32(n, n, seed=1)],
            [P("x"), P("x")],
            P(),
            LINE,
            all_reduce(row, 8),
        ),
        Program(
            "sum_uneven",
            uneven(lambda a: a.sum(0), P("x"), P()),
            lambda: [f32(131, 257)],
            [P()],
            P(),
            LINE,
            all_reduce(257 * 4, 8),
        ),
        Program(
            "argmax_uneven",
            uneven(lambda a: (a.argmax(0), a.max(0)), P("x"), P()),
            lambda: [f32(131, 257)],
            [P()],
            P(),
            LINE,
            3 * all_reduce(257 * 4, 8),
        ),
        moves_cum("cumsum_split", lambda a: jnp.cumsum(a, axis=0), P("x")),
        moves_cum("cumsum_free", lambda a: jnp.cumsum(a, axis=0), P(None, "x")),
        moves_cum("cummax_split", lambda a: lax.cummax(a, axis=0), P("x")),
        Program(
            "cumsum_uneven",
            uneven(lambda a: jnp.cumsum(a, axis=0), P("x")),
            lambda: [f32(131, 64)],
            [P()],
            P(),
            LINE,
            all_gather(64 * 4 * 8, 8),
        ),
        Program(
            "associative_scan",
            plain(lambda a: lax.associative_scan(jnp.add, a)),
            lambda: [f32(1024, 64)],
            [P("x")],
            P("x"),
            LINE,
            64 * 4,
        ),
    ]


def products() -> list[Program]:
    n = 512
    square = float(n * n * 4)
    return [
        dot("dot_free", P("x"), P(None, "y"), P("x", "y"), 0),
        dot("dot_contract", P(None, "x"), P("x"), P(), all_reduce(square, 8), LINE),
        dot("dot_contract_scatter", P(None, "x"), P("x"), P("x"), all_gather(square, 8), LINE),
        dot(
            "dot_contract_2d",
            P("x", "y"),
            P("y"),
            P("x"),
            all_reduce(square / 2, 4),
        ),
        dot(
            "dot_2d",
            P("x", "y"),
            P("x", "y"),
            P("x", "y"),
            all_gather(square / 4, 2),
        ),
        dot("dot_fsdp", P("x"), P("x"), P("x"), all_gather(square, 8), LINE),
        dot("dot_fsdp_other", P("x"), P(None, "x"), P("x"), all_gather(square, 8), LINE),
        dot("dot_outer_replicated", P("x"), P(None, "x"), P(), all_gather(square, 8), LINE),
        dot(
            "dot_transposed_mesh",
            P("y", "x"),
            P("x", "y"),
            P("x", "y"),
            all_gather(square / 4, 2),
        ),
        dot("dot_cube", P("x", "y"), P("y", "z"), P("x", "z"), all_reduce(square / 4, 2), CUBE),
        dot(
            "dot_cube_scatter",
            P("x", "y"),
            P("y", "z"),
            P(("x", "y"), "z"),
            all_gather(square / 4, 2),
            CUBE,
        ),
        Program(
            "dot_bf16",
            plain(lambda a, b: a @ b),
            lambda: [f32(n, n).astype(jnp.bfloat16), f32(n, n, seed=1).astype(jnp.bfloat16)],
            [P(None, "x"), P("x")],
            P(),
            LINE,
            all_reduce(square / 2, 8),
            3e-2,
        ),
        Program(
            "dot_batch",
            plain(lambda a, b: jnp.einsum("bij,bjk->bik", a, b)),
            lambda: [f32(16, 64, 96), f32(16, 96, 64)],
            [P("x", None, "y"), P("x", "y")],
            P("x"),
            XY,
            all_reduce(8 * 64 * 64 * 4, 4),
        ),
        Program(
            "dot_of_sums",
            plain(lambda a, b, c, d: a @ b + c @ d),
            lambda: [f32(n, n, seed=s) for s in range(4)],
            [P(None, "x"), P("x"), P(None, "x"), P("x")],
            P(),
            LINE,
            all_reduce(square, 8),
        ),
        Program(
            "dot_uneven",
            uneven(lambda a, b: a @ b.T, P(None, "x"), P()),
            lambda: [f32(131, 257), f32(67, 257)],
            [P(), P()],
            P(),
            LINE,
            all_reduce(131 * 67 * 4, 8),
        ),
        Program(
            "dot_uneven_free",
            uneven(lambda a: a @ a.T, P("x")),
            lambda: [f32(131, 257)],
            [P()],
            P(),
            LINE,
            all_gather(131 * 257 * 4, 8),
        ),
    ]


def pinned(mesh: Mesh, v: jax.Array, spec: P) -> jax.Array:
    return lax.with_sharding_constraint(v, NamedSharding(mesh, spec))


def hidden() -> list[Program]:
    """What a constraint, a barrier or a conditional stands before."""
    n = 512
    rows, columns = P("x"), P(None, "x")
    exchange = n * n * 4 / 8 * 7 / 8  # an all-to-all

    def there_and_back(mesh: Mesh) -> Make:
        def run(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
            moved = pinned(mesh, a, columns)
            return moved, moved * b

        return run

    def behind_barrier(mesh: Mesh) -> Make:
        def run(a: jax.Array) -> jax.Array:
            wide = jnp.pad(a, ((0, 0), (3, 4 * n)))
            return pinned(mesh, lax.optimization_barrier(wide), P())

        return run

    def branches(mesh: Mesh) -> Make:
        def run(a: jax.Array, b: jax.Array, which: jax.Array) -> jax.Array:
            one, other = pinned(mesh, jnp.tanh(a), P()), pinned(mesh, jnp.sin(b), P())
            return lax.cond(which > 0, lambda: one @ one, lambda: other * 2)

        return run

    whole = all_gather(n * n * 4, 8)
    two = lambda: [f32(n, n), f32(n, n, seed=1)]  # noqa: E731
    return [
        Program(
            "pinned_and_back", there_and_back, two, [rows, rows], (columns, rows), LINE, exchange
        ),
        Program(
            "pinned_behind_barrier",
            behind_barrier,
            lambda: [f32(n, 64)],
            [rows],
            P(),
            LINE,
            all_gather(n * 64 * 4, 8),
        ),
        Program(
            "gathers_in_branches",
            branches,
            lambda: [*two(), np.int32(1)],
            [rows, rows, P()],
            P(),
            LINE,
            whole,
        ),
    ]


def others() -> list[Program]:
    n = 512

    def one(
        name: str, fn: Make, shape: tuple[int, ...], spec: P, out: Tree, bound: float
    ) -> Program:
        return Program(name, plain(fn), lambda: [f32(*shape)], [spec], out, LINE, bound)

    square = float(n * n * 4)
    spectrum = lambda a: jnp.abs(jnp.fft.fft(a, axis=1))  # noqa: E731
    cholesky = lambda a: jnp.linalg.cholesky(jnp.einsum("bi,bj->bij", a, a) + 30 * jnp.eye(16))  # noqa: E731
    return [
        one("sort_free", lambda a: jnp.sort(a, axis=0), (n, n), P(None, "x"), P(None, "x"), 0),
        one(
            "sort_split",
            lambda a: jnp.sort(a, axis=0),
            (n, n),
            P("x"),
            P("x"),
            all_gather(square / 8, 8),
        ),
        one("argsort_split", lambda a: jnp.argsort(a, axis=0), (n, n), P("x"), P("x"), 0),
        one(
            "top_k_split",
            lambda a: lax.top_k(a, 4),
            (64, 1024),
            P(None, "x"),
            [P(), P()],
            all_gather(64 * 4 * 8, 8),
        ),
        one("top_k_free", lambda a: lax.top_k(a, 4), (64, 1024), P("x"), [P("x"), P("x")], 0),
        one("fft_free", spectrum, (64, n), P("x"), P("x"), 0),
        one("cholesky_batch", cholesky, (64, 16), P("x"), P("x"), 0),
        Program(
            "sort_uneven",
            uneven(lambda a: jnp.sort(a, axis=0), P("x")),
            lambda: [f32(131, 64)],
            [P()],
            P(),
            LINE,
            all_gather(131 * 64 * 4 / 8, 8),
        ),
        Program(
            "while_reduce",
            plain(lambda a: lax.fori_loop(0, 10, lambda i, v: v / (1 + jnp.sum(v * v)), a)),
            lambda: [f32(4096)],
            [P("x")],
            P("x"),
            LINE,
            10 * all_reduce(4, 8),
        ),
        Program(
            "loop_invariant",
            plain(lambda w, v: lax.fori_loop(0, 10, lambda i, u: jnp.tanh(u @ w), v)),
            lambda: [f32(256, 256, scale=0.1), f32(512, 256)],
            [P("x"), P("x")],
            P("x"),
            LINE,
            all_gather(256 * 256 * 4, 8),
        ),
        Program(
            "loop_accumulate",
            plain(
                lambda xs, ys: lax.scan(
                    lambda s, xy: (s + xy[0].T @ xy[1], None), jnp.zeros((128, 128)), (xs, ys)
                )[0]
            ),
            lambda: [f32(8, 256, 128), f32(8, 256, 128, seed=1)],
            [P(None, "x"), P(None, "x")],
            P(),
            LINE,
            all_reduce(128 * 128 * 4, 8),
            1e-3,
        ),
        Program(
            "conditional",
            plain(lambda a, i: lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * v], a)),
            lambda: [f32(n, n), np.int32(2)],
            [P("x"), P()],
            P("x"),
            LINE,
            0,
        ),
    ]


def arithmetic() -> list[Program]:
    return [
        *elementwise(),
        *reductions(),
        *products(),
        *hidden(),
        *others(),
    ]
