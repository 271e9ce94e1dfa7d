"""JAX programs as StableHLO artifacts, for `ir_oracle_test.py`. A script, because it must run on JAX's
own CPU backend with 8 forced devices, whatever backend the tests are about.

    ir_programs.py list                 names of all programs
    ir_programs.py write DIRECTORY      NAME@VERSION.bc and, of jaxlib's own reading of it, .ref
    ir_programs.py canon DIRECTORY      FILE.mlir -> FILE.canon: parsed and printed by jaxlib
    ir_programs.py fixtures DIRECTORY   the artifacts that the C++ tests read, into tests/data/artifacts
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.interpreters import mlir as jax_mlir
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax
from jaxlib.mlir import ir

# The versions that an artifact can be downgraded to: ours, the IFRT door's, and old ones whose
# operators and bytecode differ.
VERSIONS = ["1.17.0", "1.13.7"]
OLD_VERSIONS = ["1.9.0", "1.0.0", "0.14.0"]

Lower = Callable[[], Any]  # makes a jax.stages.Lowered


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def mesh(*names: str, kind: AxisType = AxisType.Auto) -> Mesh:
    shape = {1: (8,), 2: (4, 2), 3: (2, 2, 2)}[len(names)]
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(names))


def twins() -> Iterator[tuple[str, Lower]]:
    """The programs of `twin_programs_test.py`, sharded."""
    import twin_programs_test as t

    for program in t.PROGRAMS:

        def lower(program: Any = program) -> Any:
            m = t.mesh()
            shardings = tuple(NamedSharding(m, s) for s in program.specs)
            out = None if program.out is None else NamedSharding(m, program.out)
            return jax.jit(program.fn, in_shardings=shardings, out_shardings=out).lower(
                *program.args
            )

        yield f"twin-{program.name}", lower


def jitted(fn: Callable[..., Any], *args: Any, **options: Any) -> Lower:
    return lambda: jax.jit(fn, **options).lower(*args)


def for_gpu(fn: Callable[..., Any], *args: Any) -> Lower:
    """What JAX does not lower for the CPU."""
    return lambda: jax.jit(fn).trace(*args).lower(lowering_platforms=("cuda",))


def mapped(fn: Callable[..., Any], in_specs: Any, out_specs: Any, *args: Any) -> Lower:
    """Under shard_map on a 4 x 2 mesh."""

    def lower() -> Any:
        body = jax.shard_map(
            fn, mesh=mesh("x", "y"), in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        return jax.jit(body).lower(*args)

    return lower


def collectives() -> Iterator[tuple[str, Lower]]:
    one = f32(16, 8)
    yield "psum", mapped(lambda a: lax.psum(a, "x"), P("x"), P(), one)
    yield "psum-both", mapped(lambda a: lax.psum(a, ("x", "y")), P("x", "y"), P(), one)
    yield "psum-groups", mapped(lambda a: lax.pmax(lax.pmin(a, "y"), "x"), P("x", "y"), P(), one)
    yield (
        "psum-tree",
        mapped(
            lambda a: lax.psum((a, a.astype(jnp.bfloat16), a.astype(jnp.int8)), "y"),
            P("x", "y"),
            P("x"),
            one,
        ),
    )
    yield "pmean", mapped(lambda a: lax.pmean(a, "x"), P("x"), P(), one)
    yield (
        "all-gather",
        mapped(lambda a: lax.all_gather(a, "y", axis=1, tiled=True), P("x", "y"), P("x"), one),
    )
    yield "all-gather-new-axis", mapped(lambda a: lax.all_gather(a, "x"), P("x"), P(), one)
    yield (
        "psum-scatter",
        mapped(
            lambda a: lax.psum_scatter(a, "x", scatter_dimension=0, tiled=True), P(), P("x"), one
        ),
    )
    yield (
        "all-to-all",
        mapped(lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x"), P(None, "x"), one),
    )
    yield (
        "ppermute",
        mapped(
            lambda a: lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]),
            P("x"),
            P("x"),
            one,
        ),
    )
    broadcast = jax.shard_map(
        lambda a: lax.pbroadcast(a, "x", 1), mesh=mesh("x", "y"), in_specs=P("x"), out_specs=P("x")
    )
    yield "pbroadcast", for_gpu(broadcast, one)
    yield (
        "axis-index",
        mapped(
            lambda a: a + lax.axis_index("x") * 2.0 + lax.axis_index("y"),
            P("x", "y"),
            P("x", "y"),
            one,
        ),
    )
    yield (
        "ragged-all-to-all",
        mapped(
            lambda a, o, *s: lax.ragged_all_to_all(a, o, *s, axis_name="x"),
            (P("x"),) * 6,
            P("x"),
            f32(32, 4),
            f32(32, 4),
            *[i32(16)] * 4,
        ),
    )
    yield (
        "scan-of-psum",
        mapped(
            lambda a: lax.scan(lambda c, _: (lax.psum(c, "x") * 0.5, None), a, None, 3)[0],
            P("x"),
            P("x"),
            one,
        ),
    )
    yield "partial-manual", partial_manual
    yield "nested-shard-map", nested_manual
    yield "pmap", lambda: jax.pmap(lambda a: lax.psum(a, "i"), axis_name="i").lower(f32(8, 4))
    yield "explicit-axes", explicit_axes
    yield "unreduced", unreduced


def partial_manual() -> Any:
    fn = jax.shard_map(
        lambda a: lax.psum(jnp.sin(a), "x"),
        mesh=mesh("x", "y"),
        in_specs=P("x"),
        out_specs=P(),
        axis_names={"x"},
    )
    return jax.jit(lambda a: fn(a) * 2).lower(f32(8, 8))


def nested_manual() -> Any:
    m = mesh("x", "y")
    inner = jax.shard_map(
        lambda a: lax.psum(a, "y"), in_specs=P(None, "y"), out_specs=P(), axis_names={"y"}
    )
    outer = jax.shard_map(
        lambda a: inner(lax.psum(a, "x")),
        mesh=m,
        in_specs=P("x"),
        out_specs=P(),
        axis_names={"x"},
        check_vma=False,
    )
    with jax.set_mesh(m):
        return jax.jit(outer).lower(f32(8, 8))


def explicit_axes() -> Any:
    m = mesh("x", "y", kind=AxisType.Explicit)
    with jax.set_mesh(m):
        a = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(m, P("x", "y")))
        return jax.jit(lambda a: jax.reshard(jnp.sin(a).T, P("x", None)) @ a.T.sum(0)).lower(a)


def unreduced() -> Any:
    m = mesh("x", "y", kind=AxisType.Explicit)
    with jax.set_mesh(m):
        a = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(m, P(None, "x")))
        b = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(m, P("x", None)))
        partial_sums = NamedSharding(m, P(None, None, unreduced={"x"}))
        return jax.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=partial_sums)).lower(
            a, b
        )


def linalg() -> Iterator[tuple[str, Lower]]:
    square = f32(6, 6)
    for name in ["cholesky", "qr", "svd", "eigh", "inv", "det", "eigvals"]:
        yield f"linalg-{name}", jitted(getattr(jnp.linalg, name), square)
    yield "linalg-solve", jitted(jnp.linalg.solve, square, f32(6, 2))
    yield (
        "triangular-solve",
        jitted(
            lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1),
            square,
            f32(6, 2),
        ),
    )
    yield "batched-cholesky", jitted(jax.vmap(jnp.linalg.cholesky), f32(3, 4, 4))


def elementwise() -> Iterator[tuple[str, Lower]]:
    a, n = f32(4, 8), i32(4, 8)
    unary = ["abs", "cbrt", "ceil", "cos", "exp", "exp2", "expm1", "floor", "is_finite", "log", "log1p",
             "logistic", "neg", "round", "rsqrt", "sign", "sin", "sqrt", "tan", "tanh", "erf", "erf_inv", "lgamma",
             "digamma", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "bessel_i0e"]  # fmt: skip
    for name in unary:
        yield f"unary-{name}", jitted(getattr(lax, name), a)
    for name in ["add", "atan2", "div", "max", "min", "mul", "pow", "rem", "sub", "nextafter"]:
        yield f"binary-{name}", jitted(getattr(lax, name), a, a)
    for name in [
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
    ]:
        yield f"binary-{name}", jitted(getattr(lax, name), n, n)
    for name in ["population_count", "clz", "bitwise_not"]:
        yield f"unary-{name}", jitted(getattr(lax, name), n)
    yield (
        "accuracy",
        jitted(lambda a: lax.exp(a, accuracy=lax.Tolerance(atol=1e-5, rtol=0.0, ulps=2)), a),
    )
    yield "accuracy-highest", jitted(lambda a: lax.tanh(a, accuracy=lax.AccuracyMode.HIGHEST), a)
    yield "reduce-precision", jitted(lambda a: lax.reduce_precision(a, 5, 10), a)
    yield "clamp", jitted(lambda a: lax.clamp(0.0, a, 1.0), a)
    yield (
        "complex-parts",
        jitted(lambda a: (lax.complex(a, a), jnp.real(a + 1j), jnp.imag(a * 1j)), a),
    )


def types() -> Iterator[tuple[str, Lower]]:
    names = ["bfloat16", "float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32",
             "complex64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
             "float8_e5m2fnuz", "float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4",
             "int2", "uint2"]  # fmt: skip
    for name in names:
        dtype = jnp.dtype(name)
        yield (
            f"type-{name}",
            jitted(lambda a, dtype=dtype: (a.astype(dtype), jnp.ones((3,), dtype)), f32(4)),
        )
        value = np.arange(24).reshape(4, 6) % 4
        yield (
            f"constant-{name}",
            jitted(lambda a, v=value, dtype=dtype: (a, jnp.asarray(v.astype(dtype))), f32(4)),
        )
    yield (
        "big-constant",
        jitted(
            lambda a: a + np.random.default_rng(0).standard_normal((256, 256), np.float32),
            f32(256, 256),
        ),
    )
    yield (
        "special-floats",
        jitted(
            lambda a: a + np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45, 3.4e38], np.float32),
            f32(6),
        ),
    )
    yield "empty", jitted(lambda a: jnp.concatenate([a, jnp.zeros((0, 3))]), f32(2, 3))
    yield (
        "boolean-mask",
        jitted(lambda a: jnp.where(np.arange(100).reshape(10, 10) % 3 == 0, a, 0), f32(10, 10)),
    )


def operators() -> Iterator[tuple[str, Lower]]:
    a = f32(8, 16)
    dots = {"preferred_element_type": jnp.float32}
    yield (
        "dot-highest",
        jitted(lambda a, b: jnp.dot(a, b, precision="highest"), f32(8, 4), f32(4, 8)),
    )
    yield (
        "dot-mixed-precision",
        jitted(lambda a, b: lax.dot(a, b, precision=("high", "default")), f32(8, 4), f32(4, 8)),
    )
    yield (
        "dot-algorithm",
        jitted(
            lambda a, b: lax.dot(a, b, precision="BF16_BF16_F32_X3", **dots), f32(8, 4), f32(4, 8)
        ),
    )
    yield (
        "dot-tf32",
        for_gpu(
            lambda a, b: lax.dot(a, b, precision="TF32_TF32_F32", **dots), f32(8, 4), f32(4, 8)
        ),
    )
    conv = partial(lax.conv_general_dilated, window_strides=(2, 1))
    yield (
        "conv-dilated",
        jitted(
            lambda x, w: conv(
                x, w, padding=((1, 2), (0, -1)), lhs_dilation=(1, 2), rhs_dilation=(2, 1)
            ),
            f32(2, 4, 9, 9),
            f32(4, 4, 3, 3),
        ),
    )
    yield (
        "conv-groups",
        jitted(
            lambda x, w: conv(x, w, padding="SAME", feature_group_count=2),
            f32(2, 4, 8, 8),
            f32(6, 2, 3, 3),
        ),
    )
    yield (
        "conv-nhwc",
        jitted(
            lambda x, w: conv(x, w, padding="VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            f32(2, 8, 8, 4),
            f32(3, 3, 4, 6),
        ),
    )
    yield "conv-1d", jitted(lambda x, w: lax.conv(x, w, (1,), "SAME"), f32(2, 3, 9), f32(4, 3, 3))
    yield (
        "conv-batch-groups",
        jitted(
            lambda x, w: conv(x, w, padding="SAME", batch_group_count=2),
            f32(4, 3, 8, 8),
            f32(6, 3, 3, 3),
        ),
    )
    yield (
        "avg-pool",
        jitted(
            lambda x: lax.reduce_window(
                x, 0.0, lax.add, (2, 3), (2, 1), ((1, 0), (1, 1)), (1, 2), (1, 1)
            ),
            f32(8, 8),
        ),
    )
    yield (
        "select-and-scatter",
        jitted(
            jax.grad(
                lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME").sum()
            ),
            f32(7, 8),
        ),
    )
    yield (
        "variadic-reduce",
        jitted(
            lambda a, b: lax.reduce(
                (a, b), (0.0, 1.0), lambda x, y: (x[0] + y[0], x[1] * y[1]), (1,)
            ),
            a,
            a,
        ),
    )
    yield (
        "sort-pairs",
        jitted(lambda a, b: lax.sort((a, b), dimension=0, num_keys=2), a, i32(8, 16)),
    )
    yield "top-k", jitted(lambda a: lax.top_k(a, 4), a)
    yield "approx-top-k", jitted(lambda a: lax.approx_max_k(a, 4), a)
    yield "gather-fill", jitted(lambda a, i: a.at[i].get(mode="fill", fill_value=-1), a, i32(5))
    yield "gather-2d", jitted(lambda a, i, j: a[i, j], a, i32(5), i32(5))
    yield "gather-batched", jitted(jax.vmap(lambda a, i: a[i]), a, i32(8, 3))
    for name in ["add", "mul", "min", "max", "apply"]:
        if name == "apply":
            yield "scatter-apply", jitted(lambda a, i: a.at[i].apply(jnp.sin), a, i32(3))
        else:
            yield (
                f"scatter-{name}",
                jitted(lambda a, i, u, name=name: getattr(a.at[i], name)(u), a, i32(3), f32(3, 16)),
            )
    yield (
        "scatter-batched",
        jitted(
            jax.vmap(lambda a, i, u: a.at[i].add(u, unique_indices=True, indices_are_sorted=True)),
            a,
            i32(8, 3),
            f32(8, 3),
        ),
    )
    yield "rfft", jitted(lambda a: jnp.fft.irfft(jnp.fft.rfft(a)), a)
    yield "fft2", jitted(lambda a: jnp.fft.ifft2(jnp.fft.fft2(a)), a)
    yield (
        "rng-bits",
        jitted(lambda k: lax.rng_bit_generator(k, (4, 4)), jax.ShapeDtypeStruct((4,), jnp.uint32)),
    )
    yield "rng-uniform", jitted(lambda: lax.rng_uniform(0.0, 1.0, (4,)))
    yield "threefry", jitted(lambda k: jax.random.normal(k, (8,)), jax.random.key(0))
    yield "gamma", jitted(lambda k: jax.random.gamma(k, 2.0, (4,)), jax.random.key(0))
    yield "barrier", jitted(lambda a: lax.optimization_barrier((a, a + 1)), a)
    yield (
        "dynamic-slices",
        jitted(
            lambda a, i: lax.dynamic_update_slice(a, lax.dynamic_slice(a, (i, 0), (2, 16)), (0, i)),
            a,
            i32(),
        ),
    )
    yield "reverse", jitted(lambda a: lax.rev(a, (0, 1)), a)
    yield "interior-pad", jitted(lambda a: lax.pad(a, 0.0, ((1, -1, 2), (0, 3, 0))), a)
    yield (
        "donated",
        jitted(
            lambda p, g: jax.tree.map(lambda x, y: x - y, p, g), (a, a), (a, a), donate_argnums=0
        ),
    )
    yield "donated-unused", jitted(lambda p: p.sum(), a, donate_argnums=0, keep_unused=True)


def control() -> Iterator[tuple[str, Lower]]:
    a = f32(8)
    yield (
        "while",
        jitted(
            lambda a: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, a)), a
        ),
    )
    yield (
        "nested-loops",
        jitted(
            lambda a: lax.fori_loop(
                0, 3, lambda i, x: lax.fori_loop(0, i, lambda j, y: y + j, x), a
            ),
            a,
        ),
    )
    yield (
        "deep-cond",
        jitted(
            lambda a, p: lax.cond(
                p > 0, lambda x: lax.cond(p > 1, jnp.sin, jnp.cos, x), jnp.tan, a
            ),
            a,
            i32(),
        ),
    )
    yield (
        "named-call",
        jitted(lambda a: jax.named_call(jax.jit(lambda x: x * 2), name="twice")(a), a),
    )
    yield "inner-jit", jitted(lambda a: jax.jit(jnp.sin)(jax.jit(jnp.sin)(a)), a)
    yield (
        "remat",
        jitted(jax.grad(lambda a: jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)))(a).sum()), a),
    )
    yield (
        "custom-jvp",
        jitted(jax.grad(lambda a: jax.nn.relu(a).sum() + jax.nn.softplus(a).sum()), a),
    )
    yield (
        "composite",
        jitted(
            lambda a: lax.composite(lambda x, *, scale: x * scale, name="shardway.scale")(
                a, scale=np.float32(2.5)
            ),
            a,
        ),
    )
    yield (
        "composite-nested",
        jitted(
            lambda a: lax.composite(
                lambda x: lax.erf(x) + lax.top_k(x, 2)[0].sum(), name="shardway.outer"
            )(a),
            a,
        ),
    )
    yield "pure-callback", jitted(lambda a: jax.pure_callback(np.sin, a, a), a)
    yield (
        "io-callback",
        jitted(
            lambda a: io_callback(np.sum, jax.ShapeDtypeStruct((), jnp.float32), a, ordered=True), a
        ),
    )
    yield (
        "io-callback-mapped",
        mapped(
            lambda a: (io_callback(lambda v: None, None, a, ordered=True), a)[1],
            P("x", "y"),
            P("x", "y"),
            f32(8, 4),
        ),
    )
    yield "debug-print", jitted(lambda a: (jax.debug.print("a {}", a), a)[1], a)
    yield (
        "ffi-call",
        jitted(
            lambda a: jax.ffi.ffi_call(
                "nowhere", jax.ShapeDtypeStruct((8,), jnp.float32), input_output_aliases={0: 0}
            )(a, n=3, s="text", f=np.float32(0.5)),
            a,
        ),
    )
    yield (
        "sharding-constraint",
        jitted(
            lambda a: (
                lax.with_sharding_constraint(a, NamedSharding(mesh("x", "y", "z"), P(("x", "z"))))
                + 1
            ),
            a,
        ),
    )
    yield (
        "unconstrained",
        jitted(
            lambda a: lax.with_sharding_constraint(
                a[None], NamedSharding(mesh("x", "y"), P("x", P.UNCONSTRAINED))
            ),
            a,
        ),
    )
    yield "layouts", jitted(lambda a: a.T, f32(3, 5))


class Text:
    """A program that is written down; JAX has no way to make it."""

    def __init__(self, body: str, *signature: str) -> None:
        *arguments, result = signature
        declared = ", ".join(f"%a{i}: {t}" for i, t in enumerate(arguments))
        self.text = f"func.func @main({declared}) -> {result} {{ {body} return %r : {result} }}"

    def as_text(self, debug_info: bool) -> str:
        return self.text


def written() -> Iterator[tuple[str, Lower]]:
    m, v, s, i = "tensor<4x6xf32>", "tensor<6xf32>", "tensor<f32>", "tensor<3xi32>"
    add = (
        f"({{ ^bb0(%x: {s}, %y: {s}): %z = stablehlo.add %x, %y : {s} stablehlo.return %z : {s} }})"
    )
    groups = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
    bodies: dict[str, tuple[str, ...]] = {
        "dot": (f'%r = "stablehlo.dot"(%a0, %a1) : ({m}, {v}) -> tensor<4xf32>', m, v, "tensor<4xf32>"),
        "einsum": (f'%r = "stablehlo.einsum"(%a0, %a1) {{einsum_config = "ij,j->i"}} : ({m}, {v}) -> tensor<4xf32>', m, v, "tensor<4xf32>"),
        "unary-einsum": (f'%r = "stablehlo.unary_einsum"(%a0) {{einsum_config = "ij->j"}} : ({m}) -> {v}', m, v),
        "broadcast": (f'%r = "stablehlo.broadcast"(%a0) {{broadcast_sizes = array<i64: 4>}} : ({v}) -> {m}', v, m),
        "map": (f'%r = "stablehlo.map"(%a0, %a0) {add} {{dimensions = array<i64: 0, 1>}} : ({m}, {m}) -> {m}', m, m),
        "torch-index-select": (f'%r = "stablehlo.torch_index_select"(%a0, %a1) {{dim = 0 : i64, batch_dims = 0 : i64}} : ({m}, {i}) -> tensor<3x6xf32>', m, i, "tensor<3x6xf32>"),
        "batch-norm": (f'%r = "stablehlo.batch_norm_inference"(%a0, %a1, %a1, %a1, %a1) {{epsilon = 0.001 : f32, feature_index = 1 : i64}} : ({m}, {v}, {v}, {v}, {v}) -> {m}', m, v, m),
        "batch-norm-training": (f'%r, %mean, %var = "stablehlo.batch_norm_training"(%a0, %a1, %a1) {{epsilon = 0.001 : f32, feature_index = 1 : i64}} : ({m}, {v}, {v}) -> ({m}, {v}, {v})', m, v, m),
        "tuples": (f'%t = stablehlo.tuple %a0, %a1 : tuple<{m}, {v}> %r = stablehlo.get_tuple_element %t[1] : (tuple<{m}, {v}>) -> {v}', m, v, v),
        "cross-replica-sum": (f'%r = "stablehlo.cross-replica-sum"(%a0) {{{groups}}} : ({m}) -> {m}', m, m),
        "collective-broadcast": (f'%r = "stablehlo.collective_broadcast"(%a0) {{{groups}}} : ({m}) -> {m}', m, m),
        "infeed": (f'%t = "stablehlo.create_token"() : () -> !stablehlo.token %r, %u = "stablehlo.infeed"(%t) {{infeed_config = "c"}} : (!stablehlo.token) -> ({m}, !stablehlo.token)', m),
        "send-recv": (
            f'%t = "stablehlo.create_token"() : () -> !stablehlo.token '
            f'%u = "stablehlo.send"(%a0, %t) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}} : ({m}, !stablehlo.token) -> !stablehlo.token '
            f'%w = "stablehlo.after_all"(%t, %u) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token '
            f'%r, %x = "stablehlo.recv"(%w) {{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}} : (!stablehlo.token) -> ({m}, !stablehlo.token)',
            m, m,
        ),
        "dimension-size": (f'%r = "stablehlo.get_dimension_size"(%a0) {{dimension = 1 : i64}} : ({m}) -> tensor<i32>', m, "tensor<i32>"),
        "empty-splat": ("%r = stablehlo.constant dense<2.0> : tensor<0x3xf32>", "tensor<0x3xf32>"),
        "empty-booleans": ("%r = stablehlo.constant dense<true> : tensor<0xi1>", "tensor<0xi1>"),
        "bounded": ('%r = stablehlo.abs %a0 : tensor<4x?xf32, #stablehlo.bounds<?, 8>>',) + ("tensor<4x?xf32, #stablehlo.bounds<?, 8>>",) * 2,
        "aliases": (f'%r = stablehlo.custom_call @f(%a0) {{output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}} : ({m}) -> {m}', m, m),
    }  # fmt: skip
    for name, body in bodies.items():
        yield f"written-{name}", partial(Text, *body)


GROUPS = [twins, collectives, linalg, elementwise, types, operators, control, written]
PROGRAMS: dict[str, Lower] = {name: lower for group in GROUPS for name, lower in group()}


def canonical(module: Any) -> str:
    """Text without what the IR leaves out: the copy of a mesh that jaxlib leaves beside it, and the
    difference between "public" and nothing."""
    text = re.sub(r" \{stablehlo\.mesh = .*\}$", "", str(module), flags=re.MULTILINE)
    return text.replace("func.func public @", "func.func @")


def write(directory: Path) -> None:
    for name, lower in PROGRAMS.items():
        try:
            text = lower().as_text(debug_info=True)
        except Exception as error:
            (directory / f"{name}.skip").write_text(f"{type(error).__name__}: {error}")
            continue
        for version in VERSIONS + OLD_VERSIONS:
            path = directory / f"{name}@{version}"
            # Serializing changes the module: it is parsed afresh each time.
            try:
                with jax_mlir.make_ir_context():
                    module = ir.Module.parse(text)
                    artifact = _jax.mlir.serialize_portable_artifact(module, version, True)
            except Exception as error:
                if version in VERSIONS:
                    path.with_name(path.name + ".skip").write_text(str(error))
                continue
            path.with_name(path.name + ".bc").write_bytes(artifact)
            with jax_mlir.make_ir_context() as context:
                reference = canonical(_jax.mlir.deserialize_portable_artifact(artifact, context))
            path.with_name(path.name + ".ref").write_text(reference)


def canon(directory: Path) -> None:
    for path in sorted(directory.glob("*.mlir")):
        with jax_mlir.make_ir_context():
            try:
                text = canonical(ir.Module.parse(path.read_text()))
            except Exception as error:
                text = f"jaxlib does not parse it: {error}"
        path.with_suffix(".canon").write_text(text)


# Small, and between them every kind of attribute, type and operator encoding.
FIXTURES = [
    "psum@1.17.0", "psum@1.13.7", "psum@1.9.0", "psum@1.0.0", "psum@0.14.0", "partial-manual@1.17.0",
    "nested-shard-map@1.17.0", "unreduced@1.17.0", "explicit-axes@1.17.0", "ragged-all-to-all@1.17.0",
    "twin-mlp_grads@1.17.0", "twin-attention@1.13.7", "while@1.17.0", "deep-cond@1.17.0", "conv-dilated@1.17.0",
    "gather-batched@1.17.0", "scatter-batched@1.17.0", "dot-algorithm@1.17.0", "ffi-call@1.17.0",
    "linalg-cholesky@1.17.0", "composite-nested@1.17.0", "sharding-constraint@1.17.0", "accuracy@1.17.0",
    "type-float8_e4m3fn@1.17.0", "type-int4@1.17.0", "boolean-mask@1.17.0", "special-floats@1.17.0",
    "donated@1.17.0", "rfft@1.17.0", "debug-print@1.17.0", "rng-bits@1.17.0", "sort-pairs@1.17.0",
    "io-callback-mapped@1.13.7",
]  # fmt: skip


def fixtures(directory: Path) -> None:
    for name, version in (fixture.split("@") for fixture in FIXTURES):
        # Files without their directories: the artifacts are the same wherever they are made.
        text = re.sub(r'"/[^"]*/([^"/]+\.py)"', r'"\1"', PROGRAMS[name]().as_text(debug_info=True))
        with jax_mlir.make_ir_context():
            artifact = _jax.mlir.serialize_portable_artifact(ir.Module.parse(text), version, True)
        (directory / f"{name}@{version}.bc").write_bytes(artifact)


if __name__ == "__main__":
    if sys.argv[1] == "list":
        print("\n".join(PROGRAMS))
    else:
        {"write": write, "canon": canon, "fixtures": fixtures}[sys.argv[1]](Path(sys.argv[2]))
