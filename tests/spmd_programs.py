"""Programs for spmd_oracle.py: those of twin_programs_test.py, and what the partitioner finds hard."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import twin_programs_test
import window_programs
import written_operators as w
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from spmd_oracle import twin

Case = Callable[[], Any]

SEED = int(os.environ.get("SPMD_SEED", "7"))
RNG = np.random.default_rng(SEED)


def some(combinations: list[Any], count: int) -> list[Any]:
    """`count` of them, drawn with a seed that SPMD_SEED sets; all of them with SPMD_FULL=1."""
    if os.environ.get("SPMD_FULL") == "1":
        return combinations
    return random.Random(SEED).sample(combinations, min(count, len(combinations)))


def mesh(**axes: int) -> Mesh:
    sizes = axes or {"x": 2, "y": 4}
    n = int(np.prod(list(sizes.values())))
    return Mesh(np.array(jax.devices()[:n]).reshape(tuple(sizes.values())), tuple(sizes))


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*shape: int, high: int = 100) -> np.ndarray:
    return RNG.integers(0, high, shape, dtype=np.int32)


# ---- shard_map: every collective of jax.lax ----

XY = P("x", "y")
MANUAL: dict[str, tuple[Callable[[jax.Array], Any], Any]] = {
    "psum": (lambda v: lax.psum(v, "x") * 0.5 + 1.0, P(None, "y")),
    "psum_both": (lambda v: lax.psum(v, ("x", "y")), P()),
    "psum_minor_first": (lambda v: lax.psum(v, ("y", "x")), P()),
    "pmax_pmin": (lambda v: lax.pmax(v, "x") - lax.pmin(v, "x"), P(None, "y")),
    "pmean": (lambda v: lax.pmean(v, "y"), P("x")),
    "all_gather": (lambda v: lax.all_gather(v, "y"), P(None, "x")),
    "all_gather_tiled": (lambda v: lax.all_gather(v, "y", axis=1, tiled=True), P("x")),
    "all_gather_both": (lambda v: lax.all_gather(v, ("y", "x"), tiled=True), P()),
    "psum_scatter": (
        lambda v: lax.psum_scatter(v, "y", scatter_dimension=0, tiled=True),
        P(("x", "y")),
    ),
    "all_to_all": (lambda v: lax.all_to_all(v, "y", 0, 1, tiled=True), P(("x", "y"))),
    "all_to_all_both": (lambda v: lax.all_to_all(v, ("x", "y"), 0, 1, tiled=True), P(("x", "y"))),
    "ppermute": (lambda v: lax.ppermute(v, "y", [(0, 1), (1, 2), (2, 3), (3, 0)]), XY),
    "ppermute_partial": (lambda v: lax.ppermute(v, "x", [(0, 1)]), XY),
    "axis_index": (lambda v: v + lax.axis_index("x") * 10.0 + lax.axis_index("y"), XY),
    "axis_index_both": (lambda v: v + lax.axis_index(("y", "x")), XY),
    "groups": (lambda v: lax.psum(v, "y", axis_index_groups=[[0, 2], [1, 3]]), XY),
    "groups_odd": (
        lambda v: lax.all_gather(v, "y", axis_index_groups=[[0, 3], [1, 2]], tiled=True),
        P("x", "y"),
    ),
    "several": (
        lambda v: (lax.psum((v, v * 2), "x"), lax.pmax(v.sum(), ("x", "y"))),
        ((P(None, "y"),) * 2, P()),
    ),
    "while": (lambda v: lax.fori_loop(0, 5, lambda i, u: lax.psum(u, "x") * 0.3 + 1.0, v), XY),
    "unrolled": (
        lambda v: lax.fori_loop(0, 5, lambda i, u: lax.psum(u, "x") * 0.3 + 1.0, v, unroll=True),
        XY,
    ),
    "scan": (
        lambda v: lax.scan(
            lambda c, u: (lax.ppermute(c + u, "y", [(0, 1), (1, 2), (2, 3), (3, 0)]), c), v[0], v
        ),
        (P(("x", "y")), XY),
    ),
    "twice": (
        lambda v: (
            jax.jit(lambda u: lax.psum(u, "x"))(v) + jax.jit(lambda u: lax.psum(u, "x"))(v * 2)
        ),
        P(None, "y"),
    ),
}


def manual_case(name: str) -> Case:
    fn, out = MANUAL[name]
    m = mesh()

    def run() -> None:
        mapped = jax.shard_map(fn, mesh=m, in_specs=P("x", "y"), out_specs=out, check_vma=False)
        twin(mapped, [f32(16, 32)], [P("x", "y")], mesh=m, out=out)
        twin(mapped, [f32(16, 32)], [P("y")], mesh=m)

    return run


def partial_manual() -> None:
    """Manual over x, automatic over y."""
    m = mesh()

    def body(a: jax.Array, w: jax.Array) -> jax.Array:
        h = lax.psum(a @ w, "x")
        return jnp.tanh(h) + lax.axis_index("x")

    mapped = jax.shard_map(
        body,
        mesh=m,
        in_specs=(P(None, "x"), P("x")),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=False,
    )
    twin(mapped, [f32(8, 16), f32(16, 12)], [P("y", "x"), P("x", "y")], mesh=m)


def partial_manual_sum() -> None:
    """What goes in and comes out whole over x is split over x by what stands around it."""
    m = mesh()

    def around(a: jax.Array, region: Callable[..., jax.Array], split: bool) -> jax.Array:
        def held(v: jax.Array) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(m, P("x"))) if split else v

        return held(region(held(2 * a[:4]), a)) - 1

    mapped = jax.shard_map(
        lambda a, b: a + lax.psum(b, "x"),
        mesh=m,
        in_specs=(P(), P("x")),
        out_specs=P(),
        axis_names={"x"},
    )
    twin(
        lambda a: around(a, mapped, True),
        [f32(8, 8)],
        [P("x", "y")],
        out=P("x", "y"),
        mesh=m,
        reference=lambda a: around(a, lambda a, b: a + b[:4] + b[4:], False),
    )


def partial_manual_uneven() -> None:
    """Parts over y of three elements, which the four devices of x would split on from around them."""
    m = mesh(x=4, y=2)

    def fn(a: jax.Array, region: Callable[..., jax.Array], split: bool) -> Any:
        def held(v: jax.Array) -> jax.Array:
            spec = NamedSharding(m, P(("y", "x")))
            return lax.with_sharding_constraint(v, spec) if split else v

        return held(region(held(2 * a)))

    mapped = jax.shard_map(
        lambda a: a + lax.psum(a, "y"), mesh=m, in_specs=P("y"), out_specs=P("y"), axis_names={"y"}
    )
    twin(
        lambda a: fn(a, mapped, True),
        [f32(6)],
        out=P(),
        mesh=m,
        reference=lambda a: fn(a, lambda a: a + jnp.tile(a[:3] + a[3:], 2), False),
    )


def partial_manual_fft() -> None:
    """Manual over one axis; what a transform moves by itself over the other stays among its devices."""
    for axes in ({"x": 2, "y": 4}, {"y": 2, "x": 2, "z": 2}, {"z": 2, "x": 2, "y": 2}):
        m = mesh(**axes)
        auto = tuple(a for a in axes if a != "x")
        mapped = jax.shard_map(
            lambda a: jnp.fft.fft2(a) * (1 + lax.axis_index("x")),
            mesh=m,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
            check_vma=False,
        )
        value = (f32(2, 96, 128) + 1j * f32(2, 96, 128)).astype(np.complex64)
        for spec in (P("x", auto), P("x", auto[0], auto[1:]), P("x", None, auto)):
            for out in (P("x", auto), P("x", auto[0], auto[1:]), P("x", None, auto)):
                twin(mapped, [value], [spec], out=out, mesh=m, tolerance=1e-4)


def nested_manual() -> None:
    m = mesh()

    def inner(v: jax.Array) -> jax.Array:
        return lax.psum(v, "y") + lax.axis_index("y")

    def outer(v: jax.Array) -> jax.Array:
        v = lax.psum(v, "x")
        return jax.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False
        )(v)

    mapped = jax.shard_map(
        outer, mesh=m, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    twin(mapped, [f32(8, 16)], [XY], mesh=m)


def grad_through_shard_map() -> None:
    m = mesh()

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        f = jax.shard_map(
            lambda w, x: lax.psum(((x @ w) ** 2).sum(), ("x", "y")),
            mesh=m,
            in_specs=(P(), P(("x", "y"))),
            out_specs=P(),
        )
        return f(w, x)

    twin(jax.grad(loss), [f32(6, 5), f32(16, 6)], [P(), P(("x", "y"))], mesh=m, tolerance=1e-4)


# ---- sizes that do not divide: constraints inside, twins without them ----


def uneven(
    fn: Callable[..., Any],
    args: Sequence[np.ndarray],
    spec: P,
    m: Mesh,
    out: Any = None,
    tolerance: float = 1e-5,
    reference: Callable[..., Any] | None = None,
) -> None:
    """`fn` of arguments that are constrained to `spec` first, its results constrained likewise where they fit."""

    def sharded(*values: jax.Array) -> Any:
        held = [
            lax.with_sharding_constraint(v, NamedSharding(m, P(*spec[: v.ndim]))) for v in values
        ]
        results = fn(*held)
        keep = lambda r: lax.with_sharding_constraint(r, NamedSharding(m, P(*spec[: r.ndim])))  # noqa: E731
        return jax.tree.map(keep, results)

    twin(
        sharded,
        args,
        mesh=m,
        out=jax.tree.map(lambda _: P(), jax.eval_shape(fn, *args)),
        tolerance=tolerance,
        reference=reference or fn,
    )


def pool_gradient(a: jax.Array) -> jax.Array:
    """Where the gradient of windows goes that reach into the padding."""

    def pool(v: jax.Array) -> jax.Array:
        return lax.reduce_window(v, -jnp.inf, lax.max, (3, 2), (2, 1), ((2, 1), (1, 1)))

    out, back = jax.vjp(pool, a)
    return back(1.0 + lax.broadcasted_iota(jnp.float32, out.shape, 0))[0]


UNEVEN: dict[str, Callable[[jax.Array], Any]] = {
    "sum": lambda a: a.sum(0),
    "sum_all": lambda a: a.sum(),
    "max": lambda a: a.max(0),
    "prod": lambda a: a.prod(0),
    "mean_var": lambda a: (a.mean(0), a.var()),
    "sort": lambda a: jnp.sort(a, axis=0),
    "sort_other": lambda a: jnp.sort(a, axis=1),
    "cumsum": lambda a: jnp.cumsum(a, axis=0),
    "argmax": lambda a: (a.argmax(0), a.argmin(1)),
    "roll": lambda a: jnp.roll(a, 2, axis=0),
    "flip": lambda a: jnp.flip(a, 0),
    "softmax": lambda a: jax.nn.softmax(a, axis=0),
    "gather": lambda a: a[jnp.array([0, 4, 2, 2, 0])],
    "take_along": lambda a: jnp.take_along_axis(a, jnp.argsort(a, axis=0), axis=0),
    "scatter": lambda a: a.at[jnp.array([1, 3, 1])].add(2.0),
    "scatter_from": lambda a: jnp.zeros((6, a.shape[1])).at[jnp.arange(a.shape[0]) % 5].add(a),
    "matmul": lambda a: a @ a.T,
    "matmul_contract": lambda a: a.T @ a,
    "transpose": lambda a: a.T * 2,
    "reshape": lambda a: a.reshape(-1) * 2,
    "reshape_back": lambda a: (a.reshape(-1) * 2).reshape(a.shape),
    "slice": lambda a: a[1:-1],
    "pad": lambda a: jnp.pad(a, ((1, 2), (0, 0))),
    "concatenate": lambda a: jnp.concatenate([a, a * 2], 0),
    "iota": lambda a: a + lax.broadcasted_iota(jnp.float32, a.shape, 0),
    "constant": lambda a: a * np.arange(a.size, dtype=np.float32).reshape(a.shape),
    "dynamic_slice": lambda a: lax.dynamic_slice(a, (1, 0), (3, a.shape[1])),
    "dynamic_update": lambda a: lax.dynamic_update_slice(a, a[:2] * 3, (3, 0)),
    "select": lambda a: jnp.where(a > 0, a, -2 * a),
    "while": lambda a: lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 1.5 + 1, jnp.abs(a)),
    "any_all": lambda a: ((a > 0).any(0), (a < 9).all()),
    "logsumexp": lambda a: jax.nn.logsumexp(a, axis=0),
    "cholesky": lambda a: jnp.linalg.cholesky(
        jnp.einsum("bi,bj->bij", a, a) + 3 * jnp.eye(a.shape[1])
    ),
    "fft": lambda a: jnp.abs(jnp.fft.fft(a, axis=1)),
    "vmap_conv": lambda a: jax.vmap(lambda r: jnp.convolve(r, jnp.array([1.0, 2.0, 3.0])))(a),
    "max_pool_infinite": lambda a: pool_gradient(jnp.where(a > 1, a, -jnp.inf)),
    "max_pool": lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME"),
}


def uneven_case(name: str) -> Case:
    def run() -> None:
        specs = [P("x"), P("y"), P(("x", "y")), P("y", "x")]
        if name == "fft":  # XLA's CPU fft takes no result of an all-gather along its dimension
            specs.pop()
        for rows, spec in some(list(itertools.product((5, 7, 17), specs)), 4):
            uneven(UNEVEN[name], [f32(rows, 6)], spec, mesh(), tolerance=1e-4)

    return run


def loop_split_otherwise_inside() -> None:
    """The state is split one way before the loop, in fewer parts within, and again otherwise after it."""
    m = mesh()

    def fn(a: jax.Array, split: bool) -> jax.Array:
        def held(v: jax.Array, spec: P) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(m, spec)) if split else v

        def step(_: int, s: jax.Array) -> jax.Array:
            return held(s, P("x")) * 2 - 1

        return held(lax.fori_loop(0, 3, step, held(a, P("y"))), P(None, "y"))

    twin(partial(fn, split=True), [f32(7, 5)], out=P(), reference=partial(fn, split=False), mesh=m)


def lookup_out_of_bounds() -> None:
    """One index beyond the end, the window that it is clamped to split: XLA adds the starts of slices of slices."""
    m = mesh()
    how = lax.GatherDimensionNumbers((0,), (), (0,))

    def fn(a: jax.Array, i: jax.Array, split: bool) -> jax.Array:
        def held(v: jax.Array, spec: P) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(m, spec)) if split else v

        return held(lax.gather(held(a, P("y")), i, how, (6,), mode="clip"), P("x"))

    for start in (-3, 1, 9):
        twin(
            partial(fn, split=True),
            [f32(7), np.array([start], np.int32)],
            reference=partial(fn, split=False),
            out=P(),
            mesh=m,
        )


def one_element_of_a_product() -> None:
    """Of a slice of a vector of integers, times the same for all: XLA's simplifier forgets the factor."""
    m = mesh()

    def fn(a: jax.Array, split: bool) -> jax.Array:
        def held(v: jax.Array, spec: P) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(m, spec)) if split else v

        return held(held(held(a, P("x")) * 3, P("x")), P(("x", "y")))

    for dtype in (np.int32, np.uint32, np.float32):
        whole = np.arange(8, dtype=dtype)
        twin(partial(fn, split=True), [whole], reference=partial(fn, split=False), out=P(), mesh=m)


def few_rows() -> None:
    """Fewer rows than parts: they are gathered bit by bit without the parts that hold none."""
    m = mesh()
    split, whole = NamedSharding(m, P(("x", "y"))), NamedSharding(m, P())

    def gathered(v: jax.Array) -> jax.Array:
        # Of something that is nowhere whole.
        rows = lax.with_sharding_constraint(lax.rev(v, (1,)), split)
        return lax.rev(lax.with_sharding_constraint(rows, whole), (1,))

    def signs(v: jax.Array) -> jax.Array:
        return lax.sign(1 / v) if v.dtype == jnp.float32 else v

    values: list[Any] = [
        np.where(v < 0, -0.0, v).astype(np.float32) for v in (f32(n, 6) for n in range(1, 7))
    ]
    values += [i32(2, 5), i32(3, 5).astype(np.int8), i32(1, 5) > 50, f32(3, 2) + 1j * f32(3, 2)]
    values += [i32(3, 2, 2).astype(jnp.bfloat16), i32(2, 3).astype(np.int64)]

    def run(*args: jax.Array) -> list[jax.Array]:
        return [signs(gathered(v)) for v in args]

    def unsplit(*args: jax.Array) -> list[jax.Array]:  # XLA's own loses the sign of zeros
        return [signs(v) for v in args]

    specs = [P()] * len(values)
    text = twin(run, values, specs, mesh=m, out=specs, reference=unsplit)
    assert text.count("stablehlo.all_reduce") == 9, "of 1 to 3 rows"


# ---- transforms along split dimensions, long enough that moving them pays ----

TRANSFORMS: dict[str, tuple[Callable[[jax.Array], Any], tuple[int, ...], list[P]]] = {
    "vector": (jnp.fft.fft, (8192,), [P("x"), P(("x", "y")), P(("y", "x"))]),
    "vector_inverse": (jnp.fft.ifft, (8192,), [P(("x", "y")), P("y")]),
    "vectors": (jnp.fft.fft, (3, 4096), [P(None, ("x", "y")), P("x", "y")]),
    "vector_uneven": (jnp.fft.fft, (6007,), [P(("x", "y"))]),
    "plane": (jnp.fft.fft2, (96, 128), [P("x"), P(None, "y"), P("x", "y"), P(("y", "x"))]),
    "plane_inverse": (jnp.fft.ifft2, (97, 129), [P("x"), P(None, "y"), P("y", "x")]),
    "space": (jnp.fft.fftn, (12, 30, 50), [P("x", "y"), P(None, "y", "x"), P(("x", "y"))]),
    "real_vector": (lambda a: jnp.fft.rfft(a.real), (1 << 16,), [P(("x", "y")), P("y")]),
    "real_vectors": (
        lambda a: jnp.fft.rfft(a.real),
        (3, 1 << 15),
        [P(None, ("x", "y")), P("x", "y")],
    ),
    "real_vector_inverse": (jnp.fft.irfft, ((1 << 15) + 1,), [P(("x", "y")), P("y", "x")]),
    "real_vectors_inverse": (jnp.fft.irfft, (2, (1 << 14) + 1), [P(None, ("y", "x")), P("x", "y")]),
    "real": (lambda a: jnp.fft.rfft2(a.real), (96, 128), [P("x", "y"), P(None, ("x", "y"))]),
    "real_inverse": (jnp.fft.irfft2, (96, 65), [P("x", "y"), P("y"), P(None, "x")]),
}


def transform_case(name: str) -> Case:
    def run() -> None:
        fn, shape, specs = TRANSFORMS[name]
        value = f32(*shape) + 1j * f32(*shape)
        for spec in specs:
            uneven(fn, [value.astype(np.complex64)], spec, mesh(), tolerance=1e-4)

    return run


# ---- sorts of vectors along their split, long enough that parts exchange shards ----


def sort_many(rows: jax.Array) -> jax.Array:
    """Few distinct keys, and so many operands that their places travel too: it stays stable."""
    return jnp.stack(lax.sort((jnp.round(rows[0]), *rows), num_keys=1))


SORTS: dict[str, tuple[Callable[[jax.Array], Any], tuple[int, ...], Any]] = {
    "floats": (jnp.sort, (40000,), f32),
    "floats_uneven": (lambda a: jnp.sort(a, descending=True), (40001,), f32),
    "special": (
        lambda a: jnp.sort(jnp.where(a > 1, jnp.nan, jnp.where(a < -1, -jnp.inf, a))),
        (40003,),
        f32,
    ),
    "integers": (jnp.sort, (50007,), i32),
    "bytes": (lambda a: jnp.sort(a.astype(jnp.uint8)), (150001,), i32),
    "rows": (lambda a: jnp.sort(a, axis=1), (3, 15001), i32),
    "many": (sort_many, (10, 40003), f32),
    "argsort": (lambda a: jnp.argsort(a, descending=True), (40003,), i32),
    "almost_empty": (lambda a: jnp.sort(a, axis=0), (9, 9001), i32),
}


def sort_case(name: str) -> Case:
    def run() -> None:
        fn, shape, make = SORTS[name]
        line = P(("x", "y")) if len(shape) == 1 or name == "almost_empty" else P(None, ("y", "x"))
        uneven(fn, [make(*shape)], line, mesh())

    return run


# ---- random numbers: the same as on one device, each part made where it is wanted ----


def random_in_parts(impl: str) -> Case:
    def run() -> None:
        def draws(data: jax.Array) -> list[jax.Array]:
            key = jax.random.wrap_key_data(data, impl=impl)
            return [
                jax.random.bits(key, (4096, 3)),
                jax.random.uniform(key, (4096, 3)),
                jax.random.normal(key, (4096, 3)),
                jax.random.randint(key, (4096, 3), 0, 9),
                jax.random.bernoulli(key, 0.3, (4096, 3)),
            ]

        data = np.asarray(jax.random.key_data(jax.random.key(5, impl=impl)))
        text = twin(draws, [data], [P()], out=[P(("x", "y"))] * 5, mesh=mesh(), tolerance=1e-6)
        assert "channel_handle" not in text, "it sends something"
        assert "tensor<4096x" not in text, "it makes more than its part"

    return run


def random_wide() -> None:
    """64 bits from each algorithm, the state too."""
    with jax.enable_x64():
        for algorithm in lax.RandomAlgorithm.__members__.values():
            for dims in ((40, 3), (13, 5)):
                make = partial(
                    lax.rng_bit_generator, shape=dims, dtype=np.uint64, algorithm=algorithm
                )
                uneven(
                    lambda key, make=make: make(key),
                    [np.array([3, 1 << 40], np.uint64)],
                    P(("x", "y")),
                    mesh(),
                )


# ---- matmul for every pair of shardings ----


def matmul_pairs(lhs: P) -> Case:
    specs = [
        P(),
        P("x"),
        P(None, "x"),
        P("x", "y"),
        P("y", "x"),
        P(("x", "y")),
        P(None, ("x", "y")),
        P("y"),
        P(None, "y"),
    ]

    def run() -> None:
        for rhs, out in some(list(itertools.product(specs, specs)), 12):
            twin(lambda a, b: a @ b, [f32(16, 32), f32(32, 24)], [lhs, rhs], out=out, mesh=mesh())

    return run


# ---- patterns of training ----


def sums_over_all() -> None:
    """A product contracted over all devices: across islands (SPMD_FLAGS="--island 4") in parts."""
    specs = [P(None, ("x", "y")), P(("x", "y"))]
    text = twin(jnp.matmul, (f32(33, 64), f32(64, 41)), specs, out=P())
    in_parts = "--island" in os.environ.get("SPMD_FLAGS", "")
    assert ("stablehlo.reduce_scatter" in text) == in_parts
    assert "stablehlo.all_reduce" in text


def mlp_step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> Any:
    def loss(p: dict[str, jax.Array]) -> jax.Array:
        h = jax.nn.gelu(x @ p["w1"] + p["b1"])
        return jnp.mean((h @ p["w2"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def mlp_case(w1: P, b1: P, w2: P, x: P) -> Case:
    def run() -> None:
        params = {"b1": f32(32), "w1": f32(16, 32), "w2": f32(32, 16)}
        specs = {"b1": b1, "w1": w1, "w2": w2}
        twin(
            mlp_step,
            [params, f32(16, 16), f32(16, 16)],
            [b1, w1, w2, x, x],
            out=(specs, P()),
            tolerance=1e-4,
            mesh=mesh(),
        )

    return run


def train_lm_gradients() -> None:
    """The demo's loss and gradients: embedding, attention, scan with remat, vocabulary split."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    import train_lm

    m = mesh(data=2, model=4)
    model = train_lm.Model(width=32, layers=2, hidden=64, context=16)
    params = jax.jit(train_lm.init, static_argnums=1)(jax.random.key(0), model)
    specs = jax.tree.leaves(train_lm.parameter_specs(), is_leaf=lambda s: isinstance(s, P))

    def gradients(where: Mesh) -> Callable[..., Any]:
        activations = NamedSharding(where, P("data", None, None))
        return lambda p, b: jax.value_and_grad(train_lm.mean_loss)(p, b, activations)

    one = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    out = (P(), train_lm.parameter_specs())
    twin(
        gradients(m),
        [params, i32(8, 17, high=256)],
        [*specs, P("data")],
        out=out,
        mesh=m,
        tolerance=1e-4,
        reference=gradients(one),
    )


def all_to_all_of_padding() -> None:
    """A gather's result, padded until there is a piece for each device, goes all to all."""
    m = mesh(x=3)
    how = lax.GatherDimensionNumbers((0, 2), (2,), (0, 2))

    def fn(a: jax.Array, i: jax.Array, split: bool) -> jax.Array:
        def held(v: jax.Array) -> jax.Array:
            return lax.with_sharding_constraint(v, NamedSharding(m, P(None, "x"))) if split else v

        return held(lax.gather(held(a), i, how, (10, 4, 1), mode="clip"))

    for dtype in (bool, np.int8, np.float32):
        text = twin(
            partial(fn, split=True),
            [i32(10, 4, 3).astype(dtype), np.array([[1, 2]], np.int32)],
            mesh=m,
            out=P(),
            reference=partial(fn, split=False),
        )
        assert "stablehlo.all_to_all" in text


# ---- operators that JAX does not write itself ----

Numbered = Callable[..., Any]
WRITTEN: dict[str, tuple[Numbered, Numbered | None, list[np.ndarray]]] = {
    # The operator, what it is by definition (None: XLA on one device has it), arguments.
    "dot": (w.dot, None, [f32(9, 7), f32(7, 5)]),
    "dot_vector": (w.dot, None, [f32(7), f32(7)]),
    "einsum": (partial(w.einsum, "ab,bc->ca"), None, [f32(9, 7), f32(7, 5)]),
    "einsum_diagonal": (
        partial(w.einsum, "aab,bc->ca"),
        partial(jnp.einsum, "aab,bc->ca"),
        [f32(7, 7, 5), f32(5, 9)],
    ),
    "einsum_sums": (
        partial(w.einsum, "abc,bd->bd"),
        partial(jnp.einsum, "abc,bd->bd"),
        [f32(5, 7, 3), f32(7, 9)],
    ),
    "einsum_ellipsis": (
        partial(w.einsum, "...ab,...bc->...ac"),
        partial(jnp.einsum, "...ab,...bc->...ac"),
        [f32(1, 5, 7), f32(3, 7, 9)],
    ),
    "unary_einsum": (
        partial(w.einsum, "abac->ca"),
        partial(jnp.einsum, "abac->ca"),
        [f32(5, 7, 5, 3)],
    ),
    "batch_norm_training": (
        partial(w.batch_norm_training, feature=1),
        None,
        [f32(6, 7, 5), f32(7), f32(7)],
    ),
    "batch_norm_inference": (
        partial(w.batch_norm_inference, feature=0),
        None,
        [f32(6, 7, 5), f32(6), f32(6), f32(6), np.abs(f32(6))],
    ),
    "batch_norm_grad": (
        partial(w.batch_norm_grad, feature=2),
        None,
        [f32(6, 7, 5), f32(5), f32(5), np.abs(f32(5)), f32(6, 7, 5)],
    ),
    "torch_index_select": (
        partial(w.torch_index_select, dim=1),
        None,
        [f32(7, 9, 5), i32(3, 4, high=9)],
    ),
    "torch_index_select_batch": (
        partial(w.torch_index_select, dim=2, batch=1),
        None,
        [f32(5, 7, 9), i32(5, 3, high=9)],
    ),
    "broadcast": (lambda a: w.broadcast(a, 3, 2), None, [f32(9, 7)]),
    "dynamic_broadcast": (lambda a: w.dynamic_broadcast_in_dim(a, 3), None, [f32(9, 7)]),
    "dynamic_reshape": (lambda a: w.dynamic_reshape(a, 3, 21), None, [f32(9, 7)]),
    "dynamic_iota": (lambda a: a + w.dynamic_iota(a, 1), None, [f32(9, 7)]),
    "dynamic_pad": (
        partial(w.dynamic_pad, padding=((1, 2, 1), (-1, 3, 0))),
        None,
        [f32(9, 7), f32()],
    ),
    "dynamic_gather": (w.dynamic_gather, None, [f32(9, 7), i32(5, high=9)]),
    "dynamic_conv": (
        partial(w.dynamic_conv, padding=1),
        lambda x, k: lax.conv(x, k, (1, 1), [(1, 1)] * 2),
        [f32(4, 3, 9, 7), f32(5, 3, 3, 3)],
    ),
    "real_dynamic_slice": (
        partial(w.real_dynamic_slice, sizes=(3, 4), strides=[2, 1]),
        lambda a, i: lax.dynamic_slice(a, i, (6, 4))[::2],
        [f32(9, 7), i32(2, high=3)],
    ),
    "dimension_size": (w.rows_times, None, [f32(9, 7)]),
    "tuple": (w.second_of_tuple, None, [f32(9, 7), f32(7, 5)]),
}


def written_case(name: str) -> Case:
    fn, reference, args = WRITTEN[name]

    def run() -> None:
        for spec in some(
            [P("x"), P("y", "x"), P(None, ("x", "y")), P(("x", "y")), P("y", None, "x")], 3
        ):
            uneven(fn, args, spec, mesh(), tolerance=1e-4, reference=reference)

    return run


def without_shardy(case: Case) -> Case:
    """The same with `mhlo.sharding` strings and conversions as custom calls."""

    def run() -> None:
        jax.config.update("jax_use_shardy_partitioner", False)
        try:
            case()
        finally:
            jax.config.update("jax_use_shardy_partitioner", True)

    return run


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for p in twin_programs_test.PROGRAMS:
        found[p.name] = partial(twin, p.fn, p.args, p.specs, p.out, tolerance=p.tolerance)
    for name in MANUAL:
        found[f"manual_{name}"] = manual_case(name)
    found |= {
        "partial_manual": partial_manual,
        "partial_manual_sum": partial_manual_sum,
        "partial_manual_uneven": partial_manual_uneven,
        "partial_manual_fft": partial_manual_fft,
        "nested_manual": nested_manual,
        "grad_shard_map": grad_through_shard_map,
    }
    for name in UNEVEN:
        found[f"uneven_{name}"] = uneven_case(name)
    for name in WRITTEN:
        found[f"written_{name}"] = written_case(name)
    for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
        found[f"random_in_parts_{impl}"] = random_in_parts(impl)
    found["random_wide"] = random_wide
    found["one_element_of_a_product"] = one_element_of_a_product
    found["lookup_out_of_bounds"] = lookup_out_of_bounds
    found["loop_split_otherwise_inside"] = loop_split_otherwise_inside
    for name in SORTS:
        found[f"sort_{name}"] = sort_case(name)
    for name in TRANSFORMS:
        found[f"transform_{name}"] = transform_case(name)
    for i, lhs in enumerate([P(), P("x", "y"), P(None, ("x", "y")), P("y"), P(("y", "x"))]):
        found[f"matmul_pairs_{i}"] = matmul_pairs(lhs)
    found["sums_over_all"] = sums_over_all
    found["few_rows"] = few_rows
    found["mlp_data"] = mlp_case(P(), P(), P(), P(("x", "y")))
    found["mlp_megatron"] = mlp_case(P(None, "y"), P("y"), P("y"), P("x"))
    found["mlp_fsdp"] = mlp_case(P(("x", "y")), P(("x", "y")), P(("x", "y")), P(("x", "y")))
    found["mlp_2d"] = mlp_case(P("x", "y"), P("y"), P("y", "x"), P("x"))
    found["all_to_all_of_padding"] = all_to_all_of_padding
    found["train_lm_gradients"] = train_lm_gradients
    found |= window_programs.cases()
    for name in [
        n
        for n in found
        if n.startswith(("manual_", "partial_", "mlp_", "conv", "grad_shard", "constraint_"))
        # The twin is XLA's, whose partitioner dies of an fft in a manual subgroup without Shardy.
        and n != "partial_manual_fft"
    ]:
        found[f"gspmd_{name}"] = without_shardy(found[name])
    return found
