"""Sorts, searches, transforms and random numbers along split dimensions, for bench/partitioner.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P
from partition_program import LINE, XY, Make, Program, Tree, all_gather, f32, i32, plain, uneven

N = 512


def complex64(*shape: int) -> np.ndarray:
    return (f32(*shape) + 1j * f32(*shape, seed=1)).astype(np.complex64)


def positive(*shape: int) -> np.ndarray:
    a = f32(*shape)
    return (a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(np.float32)


def sorts() -> list[Program]:
    tile = N * N * 4 / 8
    exchange = tile * 7 / 8  # an all-to-all
    top = 4 * 8.0 * 16

    def one(name: str, fn: Make, spec: P, out: Tree, bound: float, rows: int = N) -> Program:
        return Program(name, plain(fn), lambda: [f32(rows, N)], [spec], out, LINE, bound)

    return [
        one("sort_other", lambda a: jnp.sort(a, 0), P(None, "x"), P(None, "x"), 0),
        one("sort_along", lambda a: jnp.sort(a, 1), P(None, "x"), P(None, "x"), 2 * exchange),
        one("sort_along_to_other", lambda a: jnp.sort(a, 1), P(None, "x"), P("x"), exchange),
        one("argsort_along", lambda a: jnp.argsort(a, 1), P(None, "x"), P("x"), exchange),
        one(
            "argsort_descending",
            lambda a: jnp.argsort(a, 1, descending=True),
            P(None, "x"),
            P(None, "x"),
            2 * exchange,
        ),
        one(
            "sort_descending",
            lambda a: jnp.sort(a, 1, descending=True),
            P(None, "x"),
            P(None, "x"),
            2 * exchange,
        ),
        one("top_k_along", lambda a: lax.top_k(a, 8), P(None, "x"), [P(), P()], 7 * top, 16),
        one("top_k_other", lambda a: lax.top_k(a, 8)[1], P("x"), P("x"), 0),
        one("first_sorted", lambda a: jnp.sort(a, 1)[:, :8], P(None, "x"), P(), 7 * top / 2, 16),
        Program(
            "top_k_uneven",
            uneven(lambda a: lax.top_k(a, 5)[0], P(None, "x"), P()),
            lambda: [f32(16, 1001)],
            [P()],
            P(),
            LINE,
            7 * 16 * 5 * 4,
        ),
        Program(
            "sort_vector",
            plain(jnp.sort),
            lambda: [f32(N * 64)],
            [P("x")],
            P("x"),
            LINE,
            all_gather(N * 64 * 4 / 8, 8),
        ),
        one("argmax_along", lambda a: jnp.argmax(a, 1), P(None, "x"), P(), all_gather(N * 8, 8)),
        one("argmax_scattered", lambda a: jnp.argmax(a, 1), P(None, "x"), P("x"), N * 7 / 8),
        Program(
            "argmax_uneven",
            uneven(lambda a: jnp.argmax(a, 0), P("x"), P()),
            lambda: [f32(131, 64)],
            [P()],
            P(),
            LINE,
            64 * 8 * 7 / 8,
        ),
        one(
            "median",
            lambda a: jnp.median(a, axis=1),
            P(None, "x"),
            P("x"),
            exchange,
        ),
    ]


def transforms() -> list[Program]:
    exchange = N * N * 8 / 8 * 7 / 8

    def fft(name: str, fn: Make, spec: P, out: P, bound: float) -> Program:
        return Program(name, plain(fn), lambda: [complex64(N, N)], [spec], out, LINE, bound, 1e-3)

    def batched(name: str, fn: Make, n: int, spec: P, out: P, bound: float) -> Program:
        return Program(name, plain(fn), lambda: [positive(16, n, n)], [spec], out, LINE, bound)

    return [
        fft("fft_other", lambda a: jnp.fft.fft(a, axis=1), P("x"), P("x"), 0),
        fft(
            "fft_along", lambda a: jnp.fft.fft(a, axis=1), P(None, "x"), P(None, "x"), 2 * exchange
        ),
        fft("fft_two", jnp.fft.fft2, P("x"), P("x"), 2 * exchange),
        Program(
            "fft_vector",
            plain(jnp.fft.fft),
            lambda: [complex64(N * 64)],
            [P("x")],
            P("x"),
            LINE,
            2 * N * 64 * 8 / 8 * 7 / 8,
            1e-3,
        ),
        batched("cholesky_batch", jnp.linalg.cholesky, 24, P("x"), P("x"), 0),
        batched(
            "cholesky_along",
            jnp.linalg.cholesky,
            64,
            P(None, "x"),
            P(None, "x"),
            2 * 16 * 64 * 64 * 4 / 8 * 7 / 8,
        ),
        batched("solve_batch", lambda a: jnp.linalg.solve(a, a[..., :1]), 24, P("x"), P("x"), 0),
        batched("eigh_batch", lambda a: jnp.linalg.eigh(a)[0], 12, P("x"), P("x"), 0),
        batched("qr_batch", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), 12, P("x"), P("x"), 0),
    ]


def indices() -> list[Program]:
    rows, width = 1024, 128

    def pairs(name: str, fn: Make, out: P, bound: float = 0) -> Program:
        return Program(
            name,
            plain(fn),
            lambda: [f32(rows, width), i32(rows, high=width)],
            [P("x"), P("x")],
            out,
            LINE,
            bound,
        )

    along = jnp.arange(rows)
    return [
        pairs("gather_arange", lambda a, i: a[jnp.arange(rows), i], P("x")),
        pairs("scatter_arange", lambda a, i: a.at[jnp.arange(rows), i].set(0), P("x")),
        pairs("cross_entropy", lambda a, i: -jax.nn.log_softmax(a)[along, i].mean(), P(), 7.0),
        Program(
            "gather_windows",
            plain(lambda a, i: jax.vmap(lambda s: lax.dynamic_slice(a, (s, 0), (4, width)))(i)),
            lambda: [f32(rows, width), i32(16, high=rows)],
            [P("x"), P()],
            P(),
            LINE,
            all_gather(16 * 4 * width * 4, 8),
        ),
        Program(
            "scatter_windows",
            plain(
                lambda a, i, u: lax.scatter_add(
                    a, i[:, None], u, lax.ScatterDimensionNumbers((1, 2), (), (0,))
                )
            ),
            lambda: [f32(rows, width), i32(16, high=rows), f32(16, 4, width)],
            [P("x"), P(), P()],
            P("x"),
            LINE,
            0,
        ),
        Program(
            "dynamic_slice_scattered",
            plain(lambda a, i: lax.dynamic_slice(a, (i, 0), (64, width))),
            lambda: [f32(rows, width), np.int32(100)],
            [P("x"), P()],
            P("x"),
            LINE,
            64 * width * 4 / 8 * 7 / 8,
        ),
        Program(
            "scan_over_split",
            plain(lambda a: lax.scan(lambda c, r: (c * 0.9 + r, None), jnp.zeros(width), a)[0]),
            lambda: [f32(64, width)],
            [P("x")],
            P(),
            LINE,
            all_gather(64 * width * 4, 8),
        ),
        Program(
            "scan_stacks_split",
            plain(lambda a: lax.scan(lambda c, r: (c * 0.9 + r, c), jnp.zeros(width), a)[1]),
            lambda: [f32(64, width)],
            [P()],
            P("x"),
            LINE,
            0,
        ),
        Program(
            "dropout",
            plain(lambda a: a * jax.random.bernoulli(jax.random.key(1), 0.9, a.shape)),
            lambda: [f32(N, N)],
            [P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "random_rbg",
            plain(lambda a: a + jax.random.uniform(jax.random.key(1, impl="rbg"), a.shape)),
            lambda: [f32(N, N)],
            [P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "random_permutation",
            plain(lambda a: jax.random.permutation(jax.random.key(1), a)),
            lambda: [f32(N, 64)],
            [P("x")],
            P("x"),
            LINE,
            N * 64 * 4 / 8 * 7 / 8,
        ),
    ]


def ordered() -> list[Program]:
    return [*sorts(), *transforms(), *indices()]
