"""Windows, movements of elements, and indexed access, for bench/partitioner.py."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from partition_program import (
    LINE,
    XY,
    YX,
    Make,
    Program,
    all_gather,
    all_reduce,
    f32,
    i32,
    movement,
    moves,
    plain,
    uneven,
)

ROWS = P("x")


def windows() -> list[Program]:
    image = (8, 64, 64, 16)
    halo = 2 * 8 * 64 * 16 * 4.0  # one row to each side

    def conv(
        name: str, spec: P, out: P, bound: float, axes: dict[str, int] = LINE, **how: Any
    ) -> Program:
        strides = how.pop("strides", (1, 1))
        features = how.pop("kernel", P())
        padding = how.pop("padding", "SAME")
        groups = how.get("feature_group_count", 1)
        return Program(
            name,
            plain(
                lambda x, w: lax.conv_general_dilated(
                    x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **how
                )
            ),
            lambda: [f32(*image), f32(3, 3, 16 // groups, 32)],
            [spec, features],
            out,
            axes,
            bound,
        )

    def conv_gradient(mesh: Mesh) -> Make:
        del mesh
        return jax.grad(
            lambda w, x: (
                lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
                ** 2
            ).sum()
        )

    kernel = 3 * 3 * 16 * 32 * 4.0
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")  # noqa: E731
    return [
        conv("conv_batch", P("x"), P("x"), 0),
        conv(
            "conv_features_out", P(), P(None, None, None, "x"), 0, kernel=P(None, None, None, "x")
        ),
        conv(
            "conv_features_in",
            P(None, None, None, "x"),
            P(),
            all_reduce(8 * 64 * 64 * 32 * 4, 8),
            kernel=P(None, None, "x"),
        ),
        conv("conv_spatial", P(None, "x"), P(None, "x"), halo * 7 / 8),
        conv("conv_whole", P(), P(None, "x"), 0),
        conv("conv_spatial_2d", P(None, "x", "y"), P(None, "x", "y"), 0, YX),
        conv("conv_strided", P(None, "x"), P(None, "x"), halo / 2 * 7 / 8, strides=(2, 2)),
        conv("conv_dilated", P(None, "x"), P(None, "x"), 2 * halo * 7 / 8, rhs_dilation=(2, 2)),
        conv(
            "conv_transposed",
            P(None, "x"),
            P(None, "x"),
            halo / 2 * 7 / 8,
            lhs_dilation=(2, 2),
            padding=((2, 1), (2, 1)),
        ),
        conv("conv_grouped", P(None, "x"), P(None, "x"), halo * 7 / 8, feature_group_count=4),
        Program(
            "conv_grad_batch",
            conv_gradient,
            lambda: [f32(3, 3, 16, 32, scale=0.1), f32(*image)],
            [P(), P("x")],
            P(),
            LINE,
            all_reduce(kernel, 8),
            1e-3,
        ),
        Program(
            "conv_grad_spatial",
            conv_gradient,
            lambda: [f32(3, 3, 16, 32, scale=0.1), f32(*image)],
            [P(), P(None, "x")],
            P(),
            LINE,
            all_reduce(kernel, 8) + halo * 7 / 8,
            1e-3,
        ),
        Program(
            "conv_uneven",
            uneven(
                lambda x: lax.conv_general_dilated(
                    x,
                    jnp.ones((3, 3, 4, 4)),
                    (1, 1),
                    "SAME",
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                ),
                P(None, "x"),
            ),
            lambda: [f32(2, 37, 32, 4)],
            [P()],
            P(),
            LINE,
            2 * 2 * 32 * 4 * 4 * 7 / 8,
        ),
        Program(
            "pool",
            plain(pool),
            lambda: [f32(*image)],
            [P(None, "x")],
            P(None, "x"),
            LINE,
            halo * 7 / 8,
        ),
        Program(
            "pool_strided",
            plain(
                lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            ),
            lambda: [f32(*image)],
            [P(None, "x")],
            P(None, "x"),
            LINE,
            0,
        ),
        Program(
            "pool_grad",
            plain(jax.grad(lambda x: (pool(x) ** 2).sum())),
            lambda: [f32(*image)],
            [P(None, "x")],
            P(None, "x"),
            LINE,
            halo * 7 / 8,
        ),
        Program(
            "pool_uneven",
            uneven(pool, P(None, "x")),
            lambda: [f32(2, 37, 32, 4)],
            [P()],
            P(),
            LINE,
            2 * 2 * 32 * 4 * 4 * 7 / 8,
        ),
    ]


def movements() -> list[Program]:
    n = 512

    def minus(fn: Make) -> Make:
        return lambda a: np.asarray(fn(a.astype(np.int32)))

    def moved_uneven(
        name: str, fn: Make, spec: P = ROWS, shape: tuple[int, int] = (131, 64)
    ) -> Program:
        return Program(
            name,
            uneven(fn, spec),
            lambda: [f32(*shape)],
            [P()],
            P(),
            LINE,
            movement(fn, shape, spec, spec, LINE),
        )

    pad = lambda a: lax.pad(a, jnp.array(-1, a.dtype), ((3, 5, 0), (0, 0, 0)))  # noqa: E731
    return [
        moves("slice", lambda a: a[8:-8], (528, n), P("x"), P("x"), LINE),
        moves("slice_strided", lambda a: a[::2], (n, n), P("x"), P("x"), LINE),
        moves("slice_to_one", lambda a: a[0:8], (n, n), P("x"), P(), LINE),
        moves("pad", pad, (n, n), P("x"), P("x"), LINE, minus(pad)),
        moves("pad_whole", pad, (n, n), P(), P("x"), LINE, minus(pad)),
        moves(
            "pad_interior",
            lambda a: lax.pad(a, jnp.array(-1, a.dtype), ((0, 1, 1), (0, 0, 0))),
            (n, 64),
            P("x"),
            P("x"),
            LINE,
        ),
        moves(
            "concatenate",
            lambda a: jnp.concatenate([a, a[:64]], 0),
            (n - 64, n),
            P("x"),
            P("x"),
            LINE,
        ),
        moves(
            "concatenate_other",
            lambda a: jnp.concatenate([a, a[:, :64]], 1),
            (n, n),
            P("x"),
            P("x"),
            LINE,
        ),
        moves("reverse", lambda a: jnp.flip(a, 0), (n, n), P("x"), P("x"), LINE),
        moves("reverse_whole", lambda a: jnp.flip(a, 0), (n, n), P(), P("x"), LINE),
        moves("roll", lambda a: jnp.roll(a, 3, axis=0), (n, n), P("x"), P("x"), LINE),
        moves("transpose", lambda a: a.T, (n, n), P("x"), P("x"), LINE),
        moves("transpose_free", lambda a: a.T, (n, n), P("x", "y"), P("y", "x")),
        moves(
            "reshape_merge", lambda a: a.reshape(-1, 64), (16, 32, 64), P("x", "y"), P(("x", "y"))
        ),
        moves("reshape_split", lambda a: a.reshape(16, 32, 64), (n, 64), P("x"), P("x"), LINE),
        moves(
            "reshape_inner", lambda a: a.reshape(4, 128, 64), (n, 64), P("x"), P(None, "x"), LINE
        ),
        moved_uneven("slice_uneven", lambda a: a[1:-1]),
        moved_uneven("concatenate_uneven", lambda a: jnp.concatenate([a, a], 0)),
        moved_uneven("reverse_uneven", lambda a: jnp.flip(a, 0)),
        moved_uneven("pad_uneven", pad),
        moved_uneven("reshape_uneven", lambda a: a.reshape(-1, 32)),
        moved_uneven("transpose_uneven", lambda a: a.T),
        Program(
            "iota_add",
            plain(lambda a: a + lax.broadcasted_iota(jnp.float32, (n, n), 0)),
            lambda: [f32(n, n)],
            [P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
        Program(
            "triangular",
            plain(lambda a: jnp.tril(a) + jnp.triu(a, 1) * 2),
            lambda: [f32(n, n)],
            [P("x", "y")],
            P("x", "y"),
            XY,
            0,
        ),
    ]


def indexed() -> list[Program]:
    rows, width, count = 1024, 128, 256
    table = lambda: f32(rows, width)  # noqa: E731
    picks = lambda: i32(count, high=rows)  # noqa: E731
    result = count * width * 4.0

    def get(
        name: str, spec: P, index: P, out: P, bound: float, axes: dict[str, int] = LINE
    ) -> Program:
        return Program(
            name,
            plain(lambda t, i: t[i]),
            lambda: [table(), picks()],
            [spec, index],
            out,
            axes,
            bound,
        )

    return [
        get("gather_pass_through", P(None, "x"), P(), P(None, "x"), 0),
        get("gather_index_parallel", P(), P("x"), P("x"), 0),
        get("gather_split_table", P("x"), P(), P(), all_reduce(result, 8)),
        get("gather_split_both", P("x"), P("y"), P("y"), all_reduce(result / 4, 2), XY),
        get("gather_split_scatter", P("x"), P(), P("x"), all_gather(result, 8)),
        Program(
            "take_along_batch",
            plain(lambda a, i: jnp.take_along_axis(a, i, axis=1)),
            lambda: [f32(64, 512), i32(64, 32, high=512)],
            [P("x"), P("x")],
            P("x"),
            LINE,
            0,
        ),
        Program(
            "scatter_add_data",
            plain(lambda u, i: jnp.zeros((rows, width)).at[i].add(u)),
            lambda: [f32(count, width), picks()],
            [P("x"), P("x")],
            P(),
            LINE,
            all_gather(result, 8),
        ),
        Program(
            "scatter_add_table",
            plain(lambda t, u, i: t.at[i].add(u)),
            lambda: [table(), f32(count, width), picks()],
            [P("x"), P(), P()],
            P("x"),
            LINE,
            0,
        ),
        Program(
            "scatter_window",
            plain(lambda t, u, i: t.at[i].add(u)),
            lambda: [table(), f32(count, width), picks()],
            [P(None, "x"), P(None, "x"), P()],
            P(None, "x"),
            LINE,
            0,
        ),
        Program(
            "embedding_grad",
            plain(jax.grad(lambda t, i: (t[i] ** 2).sum())),
            lambda: [table(), i32(64, 16, high=rows)],
            [P("x"), P("y")],
            P("x"),
            XY,
            all_reduce(rows / 2 * width * 4, 4),
        ),
        Program(
            "dynamic_slice",
            plain(lambda a, i: lax.dynamic_slice(a, (i, 0), (64, width))),
            lambda: [table(), np.int32(100)],
            [P("x"), P()],
            P(),
            LINE,
            all_gather(64 * width * 4, 8),
        ),
        Program(
            "dynamic_slice_free",
            plain(lambda a, i: lax.dynamic_slice(a, (i, 0), (64, width))),
            lambda: [table(), np.int32(100)],
            [P(None, "x"), P()],
            P(None, "x"),
            LINE,
            0,
        ),
        Program(
            "dynamic_update",
            plain(lambda a, u, i: lax.dynamic_update_slice(a, u, (i, 0))),
            lambda: [table(), f32(64, width), np.int32(100)],
            [P("x"), P(), P()],
            P("x"),
            LINE,
            0,
        ),
        Program(
            "gather_uneven",
            uneven(lambda a: a[jnp.arange(40) * 3], P("x"), P()),
            lambda: [f32(131, 64)],
            [P()],
            P(),
            LINE,
            all_gather(40 * 64 * 4, 8),
        ),
        Program(
            "scatter_uneven",
            uneven(lambda a: a.at[jnp.arange(40) * 3].add(2.0), P("x")),
            lambda: [f32(131, 64)],
            [P()],
            P(),
            LINE,
            0,
        ),
    ]


def movement_programs() -> list[Program]:
    return [
        *windows(),
        *movements(),
        *indexed(),
    ]
