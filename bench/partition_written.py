"""Operators that JAX does not write itself (tests/written_operators.py), for bench/partitioner.py."""

from __future__ import annotations

from functools import partial

import numpy as np
import written_operators as w
from jax.sharding import PartitionSpec as P
from partition_program import LINE, YX, Make, Program, all_reduce, f32, i32, plain

ROWS, COLUMNS, DEPTH = 64, 16, 32
IMAGE = (16, 8, 8, DEPTH)


def matrices() -> list[Program]:
    def of(name: str, fn: Make, args: list[np.ndarray], specs: list[P], out: P) -> Program:
        return Program(name, plain(fn), lambda: args, specs, out, YX, 0)

    left, right = f32(ROWS, DEPTH), f32(DEPTH, COLUMNS, seed=1)
    product = [P("x"), P(None, "y")], P("x", "y")
    square = f32(ROWS, DEPTH)
    xy = P("x", "y")
    return [
        of("written_dot", w.dot, [left, right], *product),
        of("written_einsum", partial(w.einsum, "ab,bc->ac"), [left, right], *product),
        of("written_broadcast", lambda a: w.broadcast(a, 8), [square], [xy], P(None, "x", "y")),
        of(
            "written_dynamic_broadcast",
            lambda a: w.dynamic_broadcast_in_dim(a, 8),
            [square],
            [xy],
            P(None, "x", "y"),
        ),
        of(
            "written_dynamic_reshape",
            lambda a: w.dynamic_reshape(a, ROWS, 4, DEPTH // 4),
            [square],
            [xy],
            P("x", "y"),
        ),
        of("written_dynamic_iota", lambda a: a + w.dynamic_iota(a, 0), [square], [xy], xy),
        of(
            "written_dynamic_pad",
            partial(w.dynamic_pad, padding=((0, 0, 0), (2, 2, 2))),
            [square, f32()],
            [P("x"), P()],
            P("x"),
        ),
        of(
            "written_dynamic_gather",
            w.dynamic_gather,
            [square, i32(8, high=ROWS)],
            [P(None, "y"), P("x")],
            xy,
        ),
        of("written_dimension_size", w.rows_times, [square], [xy], xy),
        of("written_tuple", w.second_of_tuple, [square, square], [P(), xy], xy),
        of(
            "written_index_select",
            partial(w.torch_index_select, dim=0),
            [square, i32(8, high=ROWS)],
            [P(None, "y"), P()],
            P(None, "y"),
        ),
    ]


def normalisations() -> list[Program]:
    image, vector = f32(*IMAGE), np.abs(f32(DEPTH))
    sums = all_reduce(2 * DEPTH * 4, 4)  # two for each feature
    inference = partial(w.batch_norm_inference, feature=3)
    training = partial(w.batch_norm_training, feature=3)
    gradient = partial(w.batch_norm_grad, feature=3)
    return [
        Program(
            "batch_norm_inference",
            plain(inference),
            lambda: [image, *[vector] * 4],
            [P("x"), *[P()] * 4],
            P("x"),
            YX,
            0,
        ),
        Program(
            "batch_norm_training",
            plain(training),
            lambda: [image, vector, vector],
            [P("x"), P(), P()],
            (P("x"), P(), P()),
            YX,
            sums,
        ),
        Program(
            "batch_norm_training_features",
            plain(training),
            lambda: [image, vector, vector],
            [P(None, None, None, "x"), P("x"), P("x")],
            (P(None, None, None, "x"), P("x"), P("x")),
            LINE,
            0,
        ),
        Program(
            "batch_norm_grad",
            plain(lambda x, v, g: gradient(x, v, v, v, g)),
            lambda: [image, vector, f32(*IMAGE, seed=1)],
            [P("x"), P(), P("x")],
            (P("x"), P(), P()),
            YX,
            sums,
        ),
    ]


def written_programs() -> list[Program]:
    return [*matrices(), *normalisations()]
