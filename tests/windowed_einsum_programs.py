"""Programs whose matrix products become rings where SHARDWAY_WINDOWED_EINSUM=always says so.

Each is a function of a mesh that gives a function, its arguments and their specs, and the spec of its
result. Values are small integers: sums do not depend on their order.

    python windowed_einsum_programs.py [NAME…]
        runs them on jax.devices() and on one device of JAX's own CPU backend, and prints one JSON object
        of name → {"error", "hops": permutes of rings as `shardway.explain` lists them}
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RNG = np.random.default_rng(11)


class Program(NamedTuple):
    """`fn(*args)`, arguments split as `specs` say, the result as `out`."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    specs: tuple[P, ...]
    out: P


def small(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(dtype)


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return a @ b


ROWS, COLUMNS = P("y"), P(None, "y")


def free(_: Mesh) -> Program:
    return Program(matmul, (small(16, 32), small(32, 16)), (ROWS, COLUMNS), COLUMNS)


def contracting(_: Mesh) -> Program:
    return Program(matmul, (small(16, 64), small(64, 8)), (ROWS, ROWS), ROWS)


def scattered(_: Mesh) -> Program:
    return Program(matmul, (small(16, 64), small(64, 8)), (COLUMNS, ROWS), ROWS)


def integers(_: Mesh) -> Program:
    args = (small(16, 64, dtype=np.int32), small(64, 8, dtype=np.int32))
    return Program(matmul, args, (ROWS, ROWS), ROWS)


def narrow(_: Mesh) -> Program:
    args = (jnp.asarray(small(16, 64), jnp.bfloat16), jnp.asarray(small(64, 8), jnp.bfloat16))
    return Program(matmul, args, (ROWS, ROWS), ROWS)


def with_data_parallelism(_: Mesh) -> Program:
    """The ring is over y alone, once for each x."""
    return Program(matmul, (small(16, 32), small(32, 8)), (P(("x", "y")), COLUMNS), P("x", "y"))


def several_dots(_: Mesh) -> Program:
    """Queries, keys and values of one gathered activation."""

    def project(x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.tanh(x @ jnp.abs(q)) + (x @ jnp.abs(k)) * (x @ v)

    weights = tuple(small(32, 8) for _ in range(3))
    return Program(project, (small(16, 32), *weights), (ROWS, *(COLUMNS,) * 3), COLUMNS)


def gradient_of_weights(_: Mesh) -> Program:
    """The sum over the batch is wanted split, transposed."""

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.grad(lambda w: jnp.sum((x @ w) * (x @ w)))(w)

    return Program(step, (small(32, 16), small(16, 8)), (ROWS, P()), ROWS)


def scan_of_layers(mesh: Mesh) -> Program:
    def layers(x: jax.Array, ws: jax.Array) -> jax.Array:
        def layer(h: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
            h = lax.with_sharding_constraint(h, NamedSharding(mesh, ROWS))
            return jnp.clip(h @ w, -3, 3), None

        return lax.scan(layer, x, ws)[0]

    return Program(layers, (small(64, 16), small(3, 16, 16)), (ROWS, COLUMNS), ROWS)


def branches(_: Mesh) -> Program:
    def either(which: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.cond(which > 0, lambda a, b: a @ b, lambda a, b: 2 * (a @ b), x, w)

    args = (np.int32(1), small(16, 64), small(64, 8))
    return Program(either, args, (P(), ROWS, ROWS), ROWS)


def held(mesh: Mesh, fn: Callable[..., Any], specs: tuple[P, ...], out: P) -> Callable[..., Any]:
    """`fn` with its arguments and result split inside, where sizes need not divide."""

    def hold(v: jax.Array, spec: P) -> jax.Array:
        return lax.with_sharding_constraint(v, NamedSharding(mesh, spec))

    return lambda *args: hold(fn(*(hold(a, s) for a, s in zip(args, specs, strict=True))), out)


def uneven(m: int, k: int, n: int, lhs: P, rhs: P, out: P, mesh: Mesh) -> Program:
    fn = held(mesh, matmul, (lhs, rhs), out)
    return Program(fn, (small(m, k), small(k, n)), (P(), P()), P())


def manual(
    body: Callable[..., Any],
    args: tuple[Any, ...],
    specs: tuple[P, ...],
    out: P,
    mesh: Mesh,
    axes: frozenset[str] = frozenset(),
) -> Program:
    fn = jax.shard_map(
        body, mesh=mesh, in_specs=specs, out_specs=out, axis_names=axes, check_vma=False
    )
    return Program(fn, args, specs, out)


def gathered_batch(mesh: Mesh) -> Program:
    def body(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.einsum("bij,bjk->bik", lax.all_gather(a, "y", tiled=True), b)

    args = (small(8, 4, 6), small(8, 6, 10))
    return manual(body, args, (P("y"), P(None, None, "x")), P(None, None, "x"), mesh)


def masked(mesh: Mesh) -> Program:
    """A select, a conversion and a transpose between the gather and the dot."""

    def body(a: jax.Array, b: jax.Array) -> jax.Array:
        whole = lax.all_gather(a, "y", axis=1, tiled=True)
        keep = lax.broadcasted_iota(jnp.int32, whole.shape, 1) < 13
        return jnp.where(keep, whole, 2).astype(jnp.float32).T @ b

    args = (small(6, 16, dtype=np.int32), small(6, 8))
    return manual(body, args, (COLUMNS, P(None, "x")), P(None, "x"), mesh)


def padded_scatter(mesh: Mesh) -> Program:
    """What is added at the end is not what the product would give there."""

    def body(a: jax.Array, b: jax.Array) -> jax.Array:
        end = jnp.where(lax.axis_index("y") == 0, 7.0, 0.0)
        whole = lax.pad(a @ b, end, ((0, 3, 0), (0, 0, 0)))
        return lax.psum_scatter(whole.T, "y", scatter_dimension=1, tiled=True)

    return manual(body, (small(13, 32), small(32, 6)), (COLUMNS, ROWS), COLUMNS, mesh)


def scattered_batch(mesh: Mesh) -> Program:
    def body(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.psum_scatter(jnp.einsum("bij,bjk->bik", a, b), "y", tiled=True)

    args = (small(8, 4, 16), small(8, 16, 6))
    return manual(body, args, (P(None, None, "y"), P(None, "y")), P("y"), mesh)


def partly_manual(mesh: Mesh) -> Program:
    """Manual over x; the ring over y is the partitioner's."""

    def body(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.psum(a @ b, "x")

    fn = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=(P(None, "x"), P("x")),
        out_specs=P(),
        axis_names={"x"},
        check_vma=False,
    )
    return Program(fn, (small(16, 64), small(64, 8)), (P("y", "x"), P("x", "y")), COLUMNS)


PROGRAMS: dict[str, Callable[[Mesh], Program]] = {
    "free": free,
    "contracting": contracting,
    "scattered": scattered,
    "integers": integers,
    "narrow": narrow,
    "with_data_parallelism": with_data_parallelism,
    "several_dots": several_dots,
    "gradient_of_weights": gradient_of_weights,
    "scan_of_layers": scan_of_layers,
    "branches": branches,
    "uneven_free": partial(uneven, 18, 32, 8, ROWS, COLUMNS, COLUMNS),
    "uneven_contracting": partial(uneven, 16, 62, 8, ROWS, ROWS, ROWS),
    "uneven_both": partial(uneven, 17, 61, 7, ROWS, ROWS, ROWS),
    "hardly_any": partial(uneven, 5, 9, 3, P(("x", "y")), P(("x", "y")), P(("x", "y"))),
    "uneven_pairs": partial(uneven, 18, 30, 9, P("x", "y"), P("y", "x"), P("x", "y")),
    "gathered_batch": gathered_batch,
    "masked": masked,
    "padded_scatter": padded_scatter,
    "scattered_batch": scattered_batch,
    "partly_manual": partly_manual,
}


def jitted(program: Program, mesh: Mesh) -> Any:
    shardings = tuple(NamedSharding(mesh, spec) for spec in program.specs)
    out = NamedSharding(mesh, program.out)
    return jax.jit(program.fn, in_shardings=shardings, out_shardings=out)


def main() -> None:
    import shardway

    names = sys.argv[1:] or list(PROGRAMS)
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(2, -1) if devices.size > 1 else devices.reshape(1, 1), ("x", "y"))
    alone = Mesh(np.array(jax.devices("cpu")[:1]).reshape(1, 1), ("x", "y"))
    outcome: dict[str, dict[str, Any]] = {}
    for name in names:
        found: dict[str, Any] = {"error": "", "hops": 0}
        outcome[name] = found
        try:
            program, twin = PROGRAMS[name](mesh), PROGRAMS[name](alone)
            fn = jitted(program, mesh)
            got = np.asarray(fn(*program.args), np.float64)
            want = np.asarray(jitted(twin, alone)(*program.args), np.float64)
            np.testing.assert_allclose(got, want, rtol=1e-2 if name == "narrow" else 1e-6)
            why = shardway.explain(fn, *program.args)
            found["hops"] = sum("windowed einsum" in c.cause for c in why.collectives)
            found["bytes"] = why.bytes
        except Exception as error:
            found["error"] = "".join(traceback.format_exception_only(error))[-2000:]
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
