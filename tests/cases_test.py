"""Small inputs with known right answers, drawn from public bug reports against systems of this kind."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardway


def mesh_of(**axes: int) -> Mesh:
    count = int(np.prod(list(axes.values())))
    return Mesh(np.array(jax.devices()[:count]).reshape(tuple(axes.values())), tuple(axes))


def put(x: np.ndarray, mesh: Mesh, spec: P) -> jax.Array:
    return jax.device_put(x, NamedSharding(mesh, spec))


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_update_past_end() -> None:
    """dynamic_update_slice clamps its start to the whole array's size, not a shard's."""
    a = put(np.array([[1, 2], [3, 4]], np.int32), mesh_of(x=2), P(None, "x"))
    out = jax.jit(lambda a: lax.dynamic_update_slice(a, jnp.full((2, 1), 99, jnp.int32), (0, 2)))(a)
    np.testing.assert_array_equal(out, [[1, 99], [3, 99]])


def test_slice_past_end() -> None:
    m = mesh_of(x=2)
    a = put(np.arange(16, dtype=np.float32).reshape(2, 8), m, P(None, "x"))
    out = jax.jit(
        lambda a: lax.dynamic_slice(a, (0, 7), (2, 6)), out_shardings=NamedSharding(m, P(None, "x"))
    )(a)
    np.testing.assert_array_equal(out, np.arange(16, dtype=np.float32).reshape(2, 8)[:, 2:8])


def test_nested_slice() -> None:
    a = put(np.arange(10, dtype=np.float32), mesh_of(x=2), P("x"))
    out = jax.jit(lambda a: lax.dynamic_slice(lax.dynamic_slice(a, (9,), (4,)), (0,), (1,)))(a)
    np.testing.assert_array_equal(out, [6.0])


def test_shared_negative_pad() -> None:
    def f(a: jax.Array) -> jax.Array:
        def cut(low: int, high: int) -> jax.Array:
            return lax.pad(a, jnp.float32(0), [(low, high, 0)])

        return jnp.concatenate([cut(-1, 0), cut(0, -2)]) + jnp.concatenate([cut(0, -1), cut(-2, 0)])

    a = np.arange(4, dtype=np.float32)
    out = jax.jit(f)(put(a, mesh_of(x=4), P("x")))
    np.testing.assert_array_equal(
        out, np.concatenate([a[1:], a[:2]]) + np.concatenate([a[:3], a[2:]])
    )


def test_scatter_replicated_indices() -> None:
    a = np.arange(512, dtype=np.float32).reshape(64, 8)
    idx = np.array([3, 60, 17, 33], np.int32)
    b = -np.ones((4, 8), np.float32)
    m = mesh_of(x=8)
    rows = NamedSharding(m, P("x"))
    f = jax.jit(lambda a, i, b: a.at[i].set(b), out_shardings=rows)
    args = (put(a, m, P("x")), put(idx, m, P()), put(b, m, P()))
    out = f(*args)
    expected = a.copy()
    expected[idx] = b
    np.testing.assert_array_equal(out, expected)
    # Each device takes the updates of its own rows: `a` stays where it is.
    assert not shardway.explain(f, *args).collectives


def test_x64_map(x64: None) -> None:
    a = put(np.arange(2, dtype=np.int64), mesh_of(x=2), P("x"))
    out = jax.jit(lambda a: lax.map(lambda v: v * 3, a))(a)
    assert out.dtype == np.int64
    np.testing.assert_array_equal(out, [0, 3])


def test_donate_with_constraint() -> None:
    m = mesh_of(x=2)
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = put(a, m, P("x"))
    f = jax.jit(
        lambda v: lax.with_sharding_constraint(v + 1, NamedSharding(m, P(None, "x"))),
        donate_argnums=0,
        out_shardings=NamedSharding(m, P(None, "x")),
    )
    out = f(x)
    np.testing.assert_array_equal(out, a + 1)
    assert x.is_deleted()


@pytest.mark.parametrize("shape", [(3, 4, 9, 0), (0,), (0, 5)], ids=str)
@pytest.mark.parametrize("sharded", [False, True])
def test_empty_dims(shape: tuple[int, ...], sharded: bool) -> None:
    x: jax.Array | np.ndarray = np.zeros(shape, np.float32)
    if sharded:
        spec = P(*[("x" if d == 0 else None) for d in shape])
        x = put(np.asarray(x), mesh_of(x=2), spec)
    assert jax.jit(lambda a: a + 1)(x).shape == shape
    assert jax.jit(jnp.sum)(x) == 0
    out = jax.jit(lambda a: jnp.concatenate([a, a], axis=0))(x)
    assert out.shape == (2 * shape[0], *shape[1:])


def test_bf16_constant() -> None:
    scalar = jnp.bfloat16(1.5)
    array = np.asarray(jnp.arange(4, dtype=jnp.bfloat16))
    out = jax.jit(lambda x: x * scalar + array)(jnp.ones(4, jnp.bfloat16))
    np.testing.assert_array_equal(np.asarray(out, np.float32), [1.5, 2.5, 3.5, 4.5])


def test_scalars(x64: None) -> None:
    out = jax.jit(lambda a, b: (a * 2, b + 1))(np.float64(1.25), np.int32(41))
    assert out[0].dtype == np.float64 and out[0].nbytes == 8 and float(out[0]) == 2.5
    assert out[1].dtype == np.int32 and out[1].nbytes == 4 and int(out[1]) == 42


def test_big_constant() -> None:
    c = np.random.default_rng(0).standard_normal((1000, 800)).astype(np.float32)
    out = jax.jit(lambda x: (x[:, None] * c).sum(0))(
        put(np.ones(1000, np.float32), mesh_of(x=8), P("x"))
    )
    np.testing.assert_allclose(out, c.sum(0), rtol=1e-3, atol=1e-3)


def test_donate_twice() -> None:
    x = put(np.ones(8, np.float32), mesh_of(x=2), P("x"))
    f = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=r"(?i)donat"):
        jax.block_until_ready(f(x, x))
    if not x.is_deleted():
        np.testing.assert_array_equal(x, np.ones(8))


def test_callback_in_loop(capfd: pytest.CaptureFixture[str]) -> None:
    @jax.jit
    def f(n: jax.Array) -> jax.Array:
        def body(i: jax.Array) -> jax.Array:
            jax.debug.print("step {i}", i=i, ordered=True)
            return i + 1

        return lax.while_loop(lambda i: i < n, body, 0)

    assert int(f(jnp.int32(20))) == 20
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == [f"step {i}" for i in range(20)]


@pytest.mark.parametrize("steps", [1, 5])
def test_ordered_callback_in_shard_map(steps: int) -> None:
    """Each device's calls come in its order; a plain jit afterwards is not in their way."""
    seen: list[tuple[int, float]] = []

    def note(i: np.ndarray, v: np.ndarray) -> None:
        seen.append((int(i), float(v[0])))

    def body(a: jax.Array) -> jax.Array:
        def step(i: jax.Array, a: jax.Array) -> jax.Array:
            io_callback(note, None, i, a, ordered=True)
            return a + 4

        return step(jnp.int32(0), a) if steps == 1 else lax.fori_loop(0, steps, step, a)

    m = mesh_of(x=4)
    f = jax.jit(jax.shard_map(body, mesh=m, in_specs=P("x"), out_specs=P("x")))
    np.testing.assert_array_equal(f(np.arange(4, dtype=np.float32)), np.arange(4) + 4 * steps)
    np.testing.assert_array_equal(jax.jit(lambda a: a * 2)(np.arange(3)), [0, 2, 4])
    jax.effects_barrier()
    for device in range(4):
        mine = [(i, v) for i, v in seen if v % 4 == device]
        assert mine == [(i, device + 4.0 * i) for i in range(steps)]


SPECS = [P(), P("x"), P("y"), P(None, "x"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y"))]


@pytest.mark.parametrize("out", SPECS, ids=str)
def test_matmul_out_shardings(out: P) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, 32)).astype(np.float32)
    b = rng.standard_normal((32, 24)).astype(np.float32)
    m = mesh_of(x=2, y=4)
    f = jax.jit(jnp.matmul, out_shardings=NamedSharding(m, out))
    for sa, sb in itertools.product(SPECS, SPECS):
        np.testing.assert_allclose(
            f(put(a, m, sa), put(b, m, sb)), a @ b, rtol=1e-4, atol=1e-4, err_msg=f"{sa} {sb}"
        )


ODD_OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x: jnp.sum(x), np.sum),
    "max": (lambda x: jnp.max(x), np.max),
    "sort": (lambda x: jnp.sort(x), np.sort),
    "cumsum": (lambda x: jnp.cumsum(x), np.cumsum),
    "argmax": (lambda x: jnp.argmax(x), np.argmax),
    "roll": (lambda x: jnp.roll(x, 2), lambda x: np.roll(x, 2)),
    "flip": (lambda x: jnp.flip(x), np.flip),
    "softmax": (
        lambda x: jax.nn.softmax(x),
        lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    ),
    "gather": (lambda x: x[np.array([0, -1, 0])], lambda x: x[np.array([0, -1, 0])]),
}


@pytest.mark.parametrize("mode", ["same", "full", "valid"])
def test_convolve_with_itself(mode: Any) -> None:
    """A kernel as large as the signal, both split: XLA's own partitioner gets "same" wrong (jaxlib 0.10.2)."""
    host = np.abs(np.random.default_rng(0).standard_normal(64)).astype(np.float32)
    x = put(host, mesh_of(x=2, y=4), P("x"))
    out = jax.jit(lambda x: jnp.convolve(x, x, mode))(x)
    np.testing.assert_allclose(out, np.convolve(host, host, mode), rtol=1e-4)


def test_uneven_tiles_of_a_slice() -> None:
    """XLA makes one slice of a slice and its tile by adding their starts: a tile must not begin too late."""
    m = mesh_of(x=2)
    split = NamedSharding(m, P("x"))
    host = np.arange(12, dtype=np.float32)

    @jax.jit
    def cut(x: jax.Array, at: jax.Array) -> jax.Array:
        tiles = lax.with_sharding_constraint(lax.dynamic_slice(x, (at,), (9,)), split)
        return lax.with_sharding_constraint(tiles * 2, NamedSharding(m, P()))

    for at in (0, 1, 3):
        np.testing.assert_array_equal(cut(put(host, m, P()), jnp.int32(at)), 2 * host[at : at + 9])


@pytest.mark.parametrize("devices", [4, 8])
@pytest.mark.parametrize("size", [5, 7, 17, 1])
@pytest.mark.parametrize("op", ODD_OPS)
def test_odd_mesh(op: str, size: int, devices: int) -> None:
    """Sizes that do not divide: padding never shows."""
    m = mesh_of(x=devices)
    ours, theirs = ODD_OPS[op]
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)

    def f(v: jax.Array) -> jax.Array:
        return ours(lax.with_sharding_constraint(v * 1, NamedSharding(m, P("x"))))

    np.testing.assert_allclose(jax.jit(f)(put(x, m, P())), theirs(x), rtol=1e-5, atol=1e-5)
