"""Ordinary JAX programs, sharded on 8 devices over 2 islands, against their unsharded twins.

Each program runs twice: jitted with NamedShardings on a 2 x 4 mesh of the platform under test, and as
it is on one device of JAX's own CPU backend. Integers must agree exactly, floats within the error that
another order of summation makes.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass(frozen=True)
class Program:
    """`fn(*args)` with each argument sharded as its spec says; `out` None leaves results to propagation."""

    name: str
    fn: Callable[..., Any]
    args: Sequence[Any]
    specs: Sequence[P]
    out: Any = None
    tolerance: float = 1e-5


RNG = np.random.default_rng(20)


def constraints_for_branches(a: jax.Array, b: jax.Array, which: jax.Array) -> jax.Array:
    """Each branch needs another tensor whole, time and again."""
    whole = lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh(), P()))  # noqa: E731
    one, other = whole(jnp.tanh(a)), whole(jnp.sin(b))

    def step(i: jax.Array, v: jax.Array) -> jax.Array:
        return lax.cond((which + i) % 2 > 0, lambda: v + one @ one, lambda: v * 0.5 + other)

    return lax.cond(which > 0, lambda: lax.fori_loop(0, 5, step, a), lambda: other.T)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*shape: int, high: int = 100) -> np.ndarray:
    return RNG.integers(0, high, shape, dtype=np.int32)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", probs, v)


def mlp_loss(w1: jax.Array, w2: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((jax.nn.gelu(x @ w1) @ w2 - y) ** 2)


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    logp = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logp, labels[..., None], axis=-1))


def scan_layers(x: jax.Array, ws: jax.Array) -> jax.Array:
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0]


def lstm(xs: jax.Array, w: jax.Array, u: jax.Array) -> jax.Array:
    def cell(
        carry: tuple[jax.Array, jax.Array], x: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype)
    return lax.scan(cell, (zero, zero), xs)[1]


def power_iteration(a: jax.Array, x: jax.Array) -> jax.Array:
    def step(_: int, v: jax.Array) -> jax.Array:
        v = a @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 5, step, x)


def collatz(n: jax.Array) -> jax.Array:
    """Steps until every element has reached 1: a while loop whose predicate is a global reduction."""

    def body(s: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, steps = s
        done = x <= 1
        return jnp.where(done, x, jnp.where(x % 2 == 0, x // 2, 3 * x + 1)), steps + ~done

    return lax.while_loop(lambda s: jnp.any(s[0] > 1), body, (n, jnp.zeros_like(n)))[1]


def adamw(
    p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 1e-2 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * p), m, v


X, Y, XY = P("x"), P("y"), P("x", "y")
ALL = P(("x", "y"))
R = P()

PROGRAMS = [
    Program("add", lambda a, b: a + b, [f32(8, 8), f32(8, 8)], [XY, XY]),
    Program("add_mixed", lambda a, b: a * 2 + b, [f32(8, 8), f32(8, 8)], [XY, P("y", "x")]),
    Program("scalar_broadcast", lambda a, s: a * s + 1, [f32(16), f32()], [ALL, R]),
    Program("row_broadcast", lambda a, b: a + b, [f32(8, 16), f32(16)], [XY, Y]),
    Program("integers", lambda a, b: (a * b + 7) % 13 ^ b, [i32(8, 8), i32(8, 8)], [XY, X]),
    Program(
        "compare_select", lambda a, b: jnp.where(a > b, a, -b), [f32(8, 8), f32(8, 8)], [XY, R]
    ),
    Program(
        "transcendental",
        lambda a: jnp.sin(a) + jnp.exp(-a * a) + jnp.log1p(a * a),
        [f32(8, 8)],
        [XY],
    ),
    Program(
        "erf_inv",
        lambda a: lax.erf(a) + lax.erf_inv(jnp.tanh(a) * 0.9),
        [f32(16)],
        [ALL],
        tolerance=1e-4,
    ),
    Program("sum_all", lambda a: a.sum(), [f32(16, 16)], [XY]),
    Program("sum_rows", lambda a: a.sum(0), [f32(16, 16)], [XY]),
    Program("sum_cols_sharded_out", lambda a: a.sum(1), [f32(16, 16)], [XY], out=ALL),
    Program("max_min", lambda a: (a.max(1), a.min(0)), [f32(16, 16)], [XY]),
    Program("argmax", lambda a: (a.argmax(0), a.argmin(1)), [f32(16, 16)], [XY]),
    Program("any_all", lambda a: ((a > 0).any(0), (a > -1).all(1)), [f32(16, 16)], [XY]),
    Program("prod_int", lambda a: jnp.prod(a, axis=0), [i32(8, 8, high=4)], [XY]),
    Program("mean_var", lambda a: (a.mean(), a.var(0)), [f32(16, 8)], [XY]),
    Program("logsumexp", lambda a: jax.nn.logsumexp(a, axis=1), [f32(16, 16)], [XY]),
    Program(
        "softmax_sharded_dim", lambda a: jax.nn.softmax(a, axis=-1), [f32(8, 16)], [P(None, "y")]
    ),
    Program("cumsum", lambda a: jnp.cumsum(a, axis=0), [i32(16, 4)], [XY]),
    Program("cummax", lambda a: lax.cummax(a, axis=1), [f32(4, 16)], [P(None, "y")]),
    Program("sort", lambda a: jnp.sort(a, axis=0), [f32(16, 8)], [XY]),
    Program("argsort", lambda a: jnp.argsort(a, axis=-1), [f32(8, 16)], [XY]),
    Program("top_k", lambda a: lax.top_k(a, 3), [f32(8, 16)], [XY]),
    Program("transpose", lambda a: a.T + 1, [f32(8, 16)], [XY]),
    Program("reshape_split", lambda a: a.reshape(4, 4, 8), [f32(16, 8)], [XY]),
    Program("reshape_merge", lambda a: a.reshape(64, 8) * 2, [f32(8, 8, 8)], [P("x", "y")]),
    Program("reshape_all", lambda a: a.reshape(-1), [f32(8, 16)], [XY], out=ALL),
    Program(
        "concatenate", lambda a, b: jnp.concatenate([a, b], 0), [f32(8, 8), f32(16, 8)], [XY, XY]
    ),
    Program(
        "concatenate_other", lambda a, b: jnp.concatenate([a, b], 1), [f32(8, 3), f32(8, 5)], [X, X]
    ),
    Program("slice", lambda a: a[1:7, ::2], [f32(8, 16)], [XY]),
    Program("pad", lambda a: jnp.pad(a, ((1, 2), (0, 3))), [f32(8, 8)], [XY]),
    Program(
        "negative_pad",
        lambda a: lax.pad(a, jnp.float32(0), ((-1, 2, 0), (0, -2, 1))),
        [f32(8, 8)],
        [XY],
    ),
    Program("reverse_roll", lambda a: (jnp.flip(a, 0), jnp.roll(a, 3, axis=1)), [f32(8, 8)], [XY]),
    Program("iota", lambda a: a + lax.broadcasted_iota(jnp.float32, (8, 8), 0), [f32(8, 8)], [XY]),
    Program(
        "dynamic_slice",
        lambda a, i: lax.dynamic_slice(a, (i, 0), (4, 8)),
        [f32(16, 8), np.int32(9)],
        [XY, R],
    ),
    Program(
        "dynamic_update",
        lambda a, u, i: lax.dynamic_update_slice(a, u, (i, 0)),
        [f32(16, 8), f32(4, 8), np.int32(3)],
        [XY, R, R],
    ),
    Program("gather_rows", lambda a, i: a[i], [f32(16, 8), i32(5, high=16)], [XY, R]),
    Program(
        "gather_batch",
        lambda a, i: jnp.take_along_axis(a, i, axis=1),
        [f32(8, 16), i32(8, 4, high=16)],
        [X, X],
    ),
    Program(
        "embedding", lambda t, i: t[i] * 2, [f32(32, 16), i32(8, 4, high=32)], [P(None, "y"), X]
    ),
    Program(
        "scatter_set",
        lambda a, b, i: a.at[i].set(b),
        [f32(64, 8), f32(4, 8), np.array([3, 17, 40, 63], np.int32)],
        [X, R, R],
    ),
    Program(
        "scatter_add",
        lambda a, b, i: a.at[i].add(b),
        [f32(16, 8), f32(6, 8), i32(6, high=16)],
        [XY, R, R],
    ),
    Program("one_hot", lambda i: jax.nn.one_hot(i, 16), [i32(16, high=16)], [ALL]),
    Program(
        "segment_sum",
        lambda a, i: jax.ops.segment_sum(a, i, 4),
        [f32(16, 4), i32(16, high=4)],
        [X, X],
    ),
    Program("matmul_contract", lambda a, b: a @ b, [f32(8, 16), f32(16, 8)], [XY, P("y", None)]),
    Program(
        "matmul_out_sharded",
        lambda a, b: a @ b,
        [f32(8, 16), f32(16, 8)],
        [P(None, "y"), P("y")],
        out=XY,
    ),
    Program("matmul_2d", lambda a, b: a @ b, [f32(16, 16), f32(16, 16)], [XY, XY], out=XY),
    Program(
        "matmul_replicated_out",
        lambda a, b: a @ b,
        [f32(16, 16), f32(16, 16)],
        [ALL, P(None, ("x", "y"))],
        out=R,
    ),
    Program(
        "einsum_batch",
        lambda a, b: jnp.einsum("bij,bjk->bik", a, b),
        [f32(8, 4, 6), f32(8, 6, 5)],
        [X, X],
    ),
    Program("outer", lambda a, b: jnp.outer(a, b), [f32(8), f32(16)], [X, Y], out=XY),
    Program(
        "bf16_matmul",
        lambda a, b: (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32),
        [f32(8, 16), f32(16, 8)],
        [XY, Y],
        tolerance=3e-2,
    ),
    Program("attention", attention, [f32(4, 8, 4, 8)] * 3, [P("x", None, "y")] * 3),
    Program(
        "attention_grad",
        lambda q, k, v: jax.grad(lambda q: attention(q, k, v).sum())(q),
        [f32(4, 8, 4, 8)] * 3,
        [P("x", None, "y")] * 3,
        tolerance=1e-4,
    ),
    Program(
        "megatron_mlp",
        lambda x, a, b: jax.nn.gelu(x @ a) @ b,
        [f32(8, 16), f32(16, 32), f32(32, 16)],
        [X, P(None, "y"), Y],
        tolerance=1e-4,
    ),
    Program(
        "mlp_grads",
        jax.grad(mlp_loss, argnums=(0, 1)),
        [f32(16, 32), f32(32, 8), f32(8, 16), f32(8, 8)],
        [P(None, "y"), Y, X, X],
        tolerance=1e-4,
    ),
    Program("rms_norm", rms_norm, [f32(8, 16), f32(16)], [XY, Y]),
    Program(
        "cross_entropy", cross_entropy, [f32(8, 4, 32), i32(8, 4, high=32)], [P("x", None, "y"), X]
    ),
    Program(
        "cross_entropy_grad",
        jax.grad(cross_entropy),
        [f32(8, 4, 32), i32(8, 4, high=32)],
        [P("x", None, "y"), X],
    ),
    Program(
        "scan_layers", scan_layers, [f32(8, 16), 0.3 * f32(3, 16, 16)], [X, P(None, None, "y")]
    ),
    Program(
        "scan_grad",
        jax.grad(lambda w, x: scan_layers(x, w).sum()),
        [0.3 * f32(3, 16, 16), f32(8, 16)],
        [P(None, "y"), X],
        tolerance=1e-4,
    ),
    Program(
        "remat_scan_grad",
        jax.grad(
            lambda w, x: lax.scan(jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None)), x, w)[
                0
            ].sum()
        ),
        [0.3 * f32(3, 16, 16), f32(8, 16)],
        [P(None, None, "y"), X],
        tolerance=1e-4,
    ),
    Program(
        "lstm",
        lstm,
        [f32(5, 8, 8), 0.4 * f32(8, 32), 0.4 * f32(8, 32)],
        [P(None, "x"), P(None, "y"), P(None, "y")],
    ),
    Program("fori_loop", power_iteration, [f32(16, 16), f32(16)], [XY, R], tolerance=1e-4),
    Program("while_global", collatz, [1 + i32(16, high=30)], [ALL]),
    Program(
        "cond",
        lambda a: lax.cond(a.sum() > 0, lambda x: x * 2, lambda x: x - 1, a),
        [f32(8, 8)],
        [XY],
    ),
    Program(
        "constraints_for_branches",
        constraints_for_branches,
        [0.3 * f32(8, 8), 0.3 * f32(8, 8), np.int32(1)],
        [XY, X, R],
        tolerance=1e-4,
    ),
    Program(
        "switch",
        lambda a, i: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x], a),
        [f32(8, 8), np.int32(2)],
        [XY, R],
    ),
    Program("vmap_dot", jax.vmap(lambda a, b: a @ b), [f32(8, 4, 4), f32(8, 4)], [X, ALL]),
    Program(
        "conv",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        [f32(4, 3, 8, 8), f32(6, 3, 3, 3)],
        [X, R],
        tolerance=1e-4,
    ),
    Program(
        "conv_spatial",
        lambda x, w: lax.conv_general_dilated(x, w, (2, 1), "SAME"),
        [f32(2, 3, 16, 8), f32(4, 3, 3, 3)],
        [P(None, None, "y"), R],
        tolerance=1e-4,
    ),
    Program(
        "conv_grad",
        jax.grad(lambda w, x: lax.conv_general_dilated(x, w, (1, 1), "SAME").sum()),
        [f32(6, 3, 3, 3), f32(4, 3, 8, 8)],
        [R, X],
        tolerance=1e-3,
    ),
    Program(
        "max_pool",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
        [f32(4, 8, 8)],
        [XY],
    ),
    Program(
        "max_pool_grad",
        jax.grad(
            lambda x: (
                lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID") ** 2
            ).sum()
        ),
        [f32(4, 8, 8)],
        [XY],
    ),
    Program("fft", lambda a: jnp.abs(jnp.fft.fft(a, axis=1)), [f32(8, 16)], [XY], tolerance=1e-4),
    Program(
        "complex",
        lambda a, b: jnp.real((a + 1j * b) @ jnp.conj((a - 1j * b).T)),
        [f32(8, 8), f32(8, 8)],
        [XY, XY],
        tolerance=1e-4,
    ),
    Program(
        "random_bits",
        lambda k: jax.random.bits(jax.random.wrap_key_data(k), (16,)),
        [np.array([1, 2], np.uint32)],
        [R],
        out=ALL,
    ),
    Program(
        "random_normal",
        lambda k: jax.random.normal(jax.random.wrap_key_data(k), (16, 8)),
        [np.array([3, 4], np.uint32)],
        [R],
        out=XY,
    ),
    Program(
        "dropout",
        lambda k, x: jnp.where(
            jax.random.bernoulli(jax.random.wrap_key_data(k), 0.5, x.shape), x, 0
        ),
        [np.array([5, 6], np.uint32), f32(8, 8)],
        [R, XY],
    ),
    Program("adamw", adamw, [f32(8, 8), f32(8, 8), f32(8, 8), np.abs(f32(8, 8))], [XY, X, Y, R]),
    Program(
        "clip_by_global_norm",
        lambda g, h: [
            x * jnp.minimum(1, 1 / jnp.sqrt((g**2).sum() + (h**2).sum())) for x in (g, h)
        ],
        [f32(8, 8), f32(16)],
        [XY, ALL],
    ),
    Program(
        "moe_dispatch",
        lambda x, g, w: jnp.einsum("te,ecd,tc->td", jax.nn.one_hot(jnp.argmax(x @ g, -1), 4), w, x),
        [f32(16, 8), f32(8, 4), f32(4, 8, 8)],
        [X, R, Y],
        tolerance=1e-4,
    ),
    Program(
        "uneven_constraint",
        lambda a: jax.lax.with_sharding_constraint(a * 2, NamedSharding(mesh(), P("y"))).sum(0),
        [f32(7, 5)],
        [R],
    ),
    Program(
        "constraint_chain",
        lambda a: jax.lax.with_sharding_constraint(
            jax.lax.with_sharding_constraint(a + 1, NamedSharding(mesh(), P("y", "x"))) * 3,
            NamedSharding(mesh(), P(None, "x")),
        ),
        [f32(8, 8)],
        [XY],
    ),
    Program(
        "many_results",
        lambda a: {"a": a, "b": (a.sum(), a.T), "c": [a[0], a.astype(jnp.int32)]},
        [f32(8, 8)],
        [XY],
    ),
    Program(
        "int_types",
        lambda a: (a.astype(jnp.int8), a.astype(jnp.uint16), a.astype(bool), a.astype(jnp.float16)),
        [i32(16)],
        [ALL],
    ),
    Program("bitcast", lambda a: lax.bitcast_convert_type(a, jnp.int32), [f32(8, 8)], [XY]),
    Program(
        "searchsorted", lambda a, v: jnp.searchsorted(jnp.sort(a), v), [f32(16), f32(8)], [ALL, X]
    ),
    Program("triangular", lambda a: jnp.tril(a) + jnp.triu(a, 1) * 2, [f32(16, 16)], [XY]),
    Program("kron", lambda a, b: jnp.kron(a, b), [f32(4, 4), f32(2, 2)], [XY, R]),
    Program("associative_scan", lambda a: lax.associative_scan(jnp.add, a), [i32(16)], [ALL]),
]


def mesh() -> Mesh:
    """Axis x over the two islands (the first four devices are one), y inside them."""
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))


def cpu_device() -> jax.Device:
    return jax.devices("cpu")[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_equals_unsharded_twin(program: Program) -> None:
    with jax.default_device(cpu_device()):
        expected = (
            jax.jit(program.fn)(*[jax.device_put(a, cpu_device()) for a in program.args])
            if "constraint" not in program.name
            else None
        )
    m = mesh()
    args = [
        jax.device_put(a, NamedSharding(m, s))
        for a, s in zip(program.args, program.specs, strict=True)
    ]
    out = None if program.out is None else NamedSharding(m, program.out)
    actual = jax.jit(program.fn, **({} if out is None else {"out_shardings": out}))(*args)
    if expected is None:  # the constraint names the mesh under test: the twin is the replicated run
        expected = jax.jit(program.fn)(
            *[jax.device_put(a, NamedSharding(m, R)) for a in program.args]
        )
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, e = np.asarray(a), np.asarray(e)
        assert a.dtype == e.dtype
        if np.issubdtype(e.dtype, np.floating):
            np.testing.assert_allclose(
                a.astype(np.float64),
                e.astype(np.float64),
                rtol=program.tolerance,
                atol=program.tolerance,
            )
        else:
            np.testing.assert_array_equal(a, e)
