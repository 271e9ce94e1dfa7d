"""What ordinary JAX asks of a backend, on 2 islands x 4 devices: placing, reading, transforming, freeing.

Each result is compared with NumPy's, or with the same program on one device of JAX's own CPU backend.
"""

import ctypes
import gc
import itertools
import re
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import mesh_utils, serialize_executable
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def mesh_of(**axes: int) -> Mesh:
    count = int(np.prod(list(axes.values())))
    return Mesh(np.array(jax.devices()[:count]).reshape(tuple(axes.values())), tuple(axes))


MESH = mesh_of(data=2, model=4)
SPECS = [
    P(),
    P("data"),
    P(None, "model"),
    P("data", "model"),
    P("model", "data"),
    P(("data", "model")),
    P(None, ("model", "data")),
]


def sharded(spec: P, mesh: Mesh = MESH) -> NamedSharding:
    return NamedSharding(mesh, spec)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def on_cpu(f: Callable[..., Any], *args: Any) -> Any:
    """`f` without any sharding, on JAX's own CPU backend."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, f(*jax.tree.map(np.asarray, args)))


def check_shards(x: jax.Array, expected: np.ndarray) -> None:
    """The array as a whole, and each shard by itself."""
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])
        assert shard.data.devices() == {shard.device}
    np.testing.assert_array_equal(np.asarray(x), expected)


# ---- devices ----


def test_devices_say_where_they_are() -> None:
    devices = jax.devices()
    assert [d.id for d in devices] == list(range(8))
    assert [d.slice_index for d in devices] == [0] * 4 + [1] * 4
    assert {d.platform for d in devices} == {"cpu"}
    assert {d.process_index for d in devices} == {0}
    assert jax.process_count() == 1
    assert jax.local_device_count() == 8
    assert len({d.host_name for d in devices}) == 2
    assert all(d.coords is not None and d.core_on_chip == 0 for d in devices)
    mesh = mesh_utils.create_hybrid_device_mesh((1, 4), (2, 1), devices)
    assert [[d.slice_index for d in row] for row in mesh] == [[0] * 4, [1] * 4]


def test_memories() -> None:
    device = jax.devices()[3]
    assert device.default_memory().kind == "device"
    assert [m.kind for m in device.addressable_memories()] == [
        "device",
        "pinned_host",
        "unpinned_host",
    ]


# ---- placing and reading ----


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_put_and_read(spec: P) -> None:
    x = numbers(8, 16)
    check_shards(jax.device_put(x, sharded(spec)), x)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "uint8",
        "uint16",
        "uint32",
        "float16",
        "bfloat16",
        "float32",
        "complex64",
        "int4",
        "uint4",
        "float8_e4m3fn",
        "float8_e5m2",
    ],
)
def test_element_types(dtype: str) -> None:
    x = (numbers(8, 4) % 5).astype(jnp.dtype(dtype))
    y = jax.device_put(x, sharded(P("data")))
    assert y.dtype == x.dtype
    check_shards(y, x)
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: a.T)(y)), x.T)


@pytest.mark.parametrize("x64", [False, True])
def test_double_precision(x64: bool) -> None:
    with jax.enable_x64(x64):
        x = jnp.asarray(np.arange(3.0))
        assert x.dtype == (np.float64 if x64 else np.float32)
        y = jnp.asarray(np.arange(3))
        assert y.dtype == (np.int64 if x64 else np.int32)
        np.testing.assert_array_equal(x * 2, [0, 2, 4])


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.asfortranarray(numbers(8, 6)),
        lambda: numbers(16, 6)[::2],
        lambda: numbers(8, 6)[::-1],
        lambda: numbers(8, 6)[:, ::-2],
        lambda: np.broadcast_to(numbers(6), (8, 6)),
        lambda: numbers(6, 8).T,
    ],
    ids=["fortran", "step", "reversed", "reversed step", "broadcast", "transposed"],
)
def test_strided_host_arrays(make: Callable[[], np.ndarray]) -> None:
    x = make()
    np.testing.assert_array_equal(jax.device_put(x), x)
    check_shards(jax.device_put(x, sharded(P("data"))), x)
    np.testing.assert_array_equal(jax.jit(lambda a: a + 1)(x), x + 1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 8)], ids=str)
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    y = jax.device_put(x, sharded(P()))
    assert np.asarray(y).shape == shape
    assert np.asarray(jax.jit(lambda a: a + 1)(y)).shape == shape


def test_scalars() -> None:
    for value in (True, 3, 2.5, 1 + 2j, np.float16(1.5)):
        assert jnp.asarray(value).item() == value
    x = jax.device_put(np.float32(7), sharded(P()))
    assert float(x) == 7
    assert len(x.addressable_shards) == 8


def test_large_arrays() -> None:
    """Over what is copied at once, in both directions."""
    x = np.random.default_rng(0).standard_normal((2048, 1024), dtype=np.float32)
    for spec in (P(), P("data", "model"), P(None, ("data", "model"))):
        y = jax.device_put(x, sharded(spec))
        np.testing.assert_array_equal(np.asarray(y), x)
    y = jax.device_put(x)
    np.testing.assert_array_equal(np.asarray(y + 1), x + 1)


@pytest.mark.parametrize("old, new", list(itertools.permutations(SPECS[:5], 2)), ids=str)
def test_put_resharded(old: P, new: P) -> None:
    x = numbers(8, 16)
    y = jax.device_put(jax.device_put(x, sharded(old)), sharded(new))
    assert y.sharding == sharded(new)
    check_shards(y, x)


def test_put_resharded_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Mesh(np.array(jax.devices()[4:]).reshape(2, 2), ("data", "model"))
    x = jax.device_put(numbers(8, 12), sharded(P("data"), mesh_of(data=2, model=2)))
    monkeypatch.setattr(jax, "jit", None)
    moved = jax.device_put(x, sharded(P(None, ("model", "data")), other))
    check_shards(moved, numbers(8, 12))


# Those of less than a byte are packed on the devices.
PACKED = [jnp.int2, jnp.int4, jnp.uint4, jnp.float4_e2m1fn]


@pytest.mark.parametrize("dtype", [*PACKED, jnp.float8_e4m3fn, jnp.float8_e5m2], ids=str)
def test_collectives_of_narrow_elements(dtype: Any) -> None:
    def f(a: jax.Array) -> jax.Array:
        gathered = lax.all_gather(a, "model", axis=1, tiled=True)
        return lax.ppermute(gathered, "data", [(0, 1), (1, 0)])

    x = (np.arange(128).reshape(8, 16) % 2).astype(dtype)
    g = jax.shard_map(
        f, mesh=MESH, in_specs=P("data", "model"), out_specs=P("data"), check_vma=False
    )
    np.testing.assert_array_equal(np.asarray(jax.jit(g)(x)), np.roll(x, 4, 0))


@pytest.mark.parametrize(
    "dtype", [jnp.bfloat16, np.bool_, np.uint8, np.complex64, np.int64, *PACKED], ids=str
)
def test_put_resharded_of_every_kind(dtype: Any) -> None:
    x = (np.arange(128).reshape(8, 16) % 2).astype(dtype)
    moved = jax.device_put(jax.device_put(x, sharded(P("data"))), sharded(P("model", "data")))
    check_shards(moved, np.asarray(jnp.asarray(x)))


def test_put_between_meshes_and_devices() -> None:
    x = numbers(8, 16)
    devices = np.array(jax.devices())
    whole = jax.device_put(x, sharded(P("data", "model")))
    for target in (
        NamedSharding(Mesh(devices[:4], ("x",)), P("x")),
        NamedSharding(Mesh(devices[4:].reshape(2, 2), ("x", "y")), P("x", "y")),
        SingleDeviceSharding(devices[5]),
    ):
        moved = jax.device_put(whole, target)
        assert moved.sharding == target
        check_shards(moved, x)
        back = jax.device_put(moved, whole.sharding)
        check_shards(back, x)
    island0 = jax.device_put(x, NamedSharding(Mesh(devices[:4], ("x",)), P("x")))
    island1 = jax.device_put(island0, NamedSharding(Mesh(devices[4:], ("x",)), P("x")))
    check_shards(island1, x)


def test_put_onto_a_reversed_mesh() -> None:
    x = numbers(8, 16)
    reversed_mesh = Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("data", "model"))
    target = NamedSharding(reversed_mesh, P("data", "model"))
    moved = jax.device_put(jax.device_put(x, sharded(P("data", "model"))), target)
    check_shards(moved, x)


def test_put_of_trees_and_keys() -> None:
    tree = {"a": numbers(8, 2), "b": [numbers(4), np.int32(3)]}
    placed = jax.device_put(tree, sharded(P()))
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(placed), tree)
    moved = jax.device_put(
        placed, {"a": sharded(P("data")), "b": [sharded(P("model")), sharded(P())]}
    )
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(moved), tree)
    key = jax.device_put(jax.random.key(0), jax.devices()[2])
    expected = on_cpu(lambda: jax.random.normal(jax.random.key(0), (3,)))
    np.testing.assert_allclose(jax.random.normal(key, (3,)), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_memory_kinds(kind: str) -> None:
    x = numbers(8, 16)
    away = sharded(P("data", "model")).with_memory_kind(kind)
    y = jax.device_put(x, away)
    assert y.sharding.memory_kind == kind
    check_shards(y, x)
    home = jax.device_put(y, sharded(P("data", "model")))
    assert home.sharding.memory_kind == "device"
    check_shards(home, x)
    there = jax.device_put(home, away)
    assert there.sharding.memory_kind == kind
    check_shards(there, x)


def test_arrays_from_callbacks_and_pieces() -> None:
    x = numbers(8, 16)
    made = jax.make_array_from_callback(
        x.shape, sharded(P("model", "data")), lambda index: x[index]
    )
    check_shards(made, x)
    local = jax.make_array_from_process_local_data(sharded(P("data")), x)
    check_shards(local, x)
    where = sharded(P("data", "model"))
    index_of = where.addressable_devices_indices_map(x.shape)
    pieces = [jax.device_put(x[i], d) for d, i in index_of.items()]
    joined = jax.make_array_from_single_device_arrays(x.shape, where, pieces)
    check_shards(joined, x)
    for _ in range(3):
        np.testing.assert_array_equal(jax.jit(lambda a: a * 2)(joined), x * 2)


def test_other_libraries_see_arrays() -> None:
    """DLPack both ways: what they see is a copy that lives as long as they look at it."""
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3) + 1
    seen = np.from_dlpack(x)
    again = np.from_dlpack(x)
    want = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(seen, want)
    del x, again
    gc.collect()
    np.testing.assert_array_equal(seen, want)
    np.testing.assert_array_equal(np.from_dlpack(jnp.zeros((0, 4))), np.zeros((0, 4)))
    np.testing.assert_array_equal(jnp.from_dlpack(np.array(seen)) * 2, want * 2)


def test_an_address_is_that_of_a_copy_as_long_as_the_array_lives() -> None:
    x = jnp.arange(6, dtype=jnp.float32) + 1
    address = x.unsafe_buffer_pointer()
    seen = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (6,))
    np.testing.assert_array_equal(seen, np.arange(1, 7))
    assert x.unsafe_buffer_pointer() == address
    assert jnp.array(x, copy=False).unsafe_buffer_pointer() == address
    assert jnp.array(x, copy=True).unsafe_buffer_pointer() != address
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(300):  # each copy of 1 MiB goes with its array
        jnp.full((1 << 18,), i, jnp.float32).unsafe_buffer_pointer()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "KiB"
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x.unsafe_buffer_pointer()


def test_read_is_repeatable_and_shared_shards_live_on() -> None:
    x = numbers(8, 16)
    y = jax.device_put(x, sharded(P("data")))
    shard = y.addressable_shards[5].data
    y.copy_to_host_async()
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(y, x)
    del y
    gc.collect()
    np.testing.assert_array_equal(shard + 1, x[4:] + 1)


# ---- transformations ----


def model(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def test_jit_with_shardings() -> None:
    x, w = numbers(8, 16) / 100, numbers(16, 8) / 100
    f = jax.jit(
        lambda x, w: jnp.sin(x @ w),
        in_shardings=(sharded(P("data")), sharded(P(None, "model"))),
        out_shardings=sharded(P("data", "model")),
    )
    y = f(x, w)
    assert y.sharding == sharded(P("data", "model"))
    np.testing.assert_allclose(y, np.sin(x @ w), rtol=1e-4, atol=1e-6)


def test_grad_vmap_scan() -> None:
    w, x = numbers(16, 8) / 100, numbers(8, 16) / 100
    ws, xs = jax.device_put(w, sharded(P(None, "model"))), jax.device_put(x, sharded(P("data")))
    for transform in (jax.grad, jax.value_and_grad, lambda f: jax.jit(jax.grad(f, argnums=(0, 1)))):
        got, expected = transform(model)(ws, xs), on_cpu(transform(model), w, x)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), got, expected)
    per_row = jax.jit(jax.vmap(jax.grad(model), in_axes=(None, 0)))
    np.testing.assert_allclose(per_row(ws, xs), on_cpu(per_row, w, x), rtol=1e-4, atol=1e-5)

    def cumulative(x: jax.Array) -> jax.Array:
        return lax.scan(lambda total, row: (total + row, total * row), jnp.zeros(16), x)[1]

    np.testing.assert_allclose(jax.jit(cumulative)(xs), on_cpu(cumulative, x), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_pmap(count: int) -> None:
    x = numbers(count, 3)
    f = jax.pmap(
        lambda a: lax.psum(a, "i") + lax.axis_index("i"), "i", devices=jax.devices()[:count]
    )
    np.testing.assert_array_equal(f(x), x.sum(0)[None] + np.arange(count)[:, None])


def test_shard_map() -> None:
    x = numbers(8, 16)

    @partial(jax.shard_map, mesh=MESH, in_specs=P("data", "model"), out_specs=P("data", "model"))
    def rotate(a: jax.Array) -> jax.Array:
        return lax.ppermute(a, "model", [(i, (i + 1) % 4) for i in range(4)])

    expected = np.roll(x.reshape(8, 4, 4), 1, axis=1).reshape(8, 16)
    np.testing.assert_array_equal(jax.jit(rotate)(x), expected)


def test_psum_on_two_devices() -> None:
    mesh = mesh_of(x=2)
    f = jax.jit(
        jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    np.testing.assert_array_equal(f(jnp.arange(4.0)), [2, 4])


def test_constraints_mean_nothing_on_one_device() -> None:
    x = numbers(8, 8)
    split = NamedSharding(MESH.abstract_mesh, P("data", "model"))
    y = jax.jit(lambda a: lax.with_sharding_constraint(a + 1, split))(x)
    np.testing.assert_array_equal(y, x + 1)
    assert len(y.sharding.device_set) == 1


def test_submeshes_and_orders_of_devices() -> None:
    x = numbers(4, 4)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 6, 4, 2]):
        mesh = Mesh(np.array(jax.devices())[order], ("x",))
        y = jax.device_put(x, NamedSharding(mesh, P("x")))
        z = jax.jit(lambda a: a - a.sum(0))(y)
        np.testing.assert_array_equal(z, x - x.sum(0))
        assert z.sharding.device_set == set(mesh.devices)


def test_another_order_of_devices_needs_no_transfer() -> None:
    """One program, on the devices that have the array."""
    devices = np.array(jax.devices()[:4])
    x = jax.device_put(
        numbers(8, 2), NamedSharding(Mesh(devices.reshape(2, 2), ("x", "y")), P("x", "y"))
    )
    for order, spec in (([3, 2, 1, 0], P("x")), ([0, 2, 1, 3], P("y", "x")), ([1, 3, 0, 2], P())):
        target = NamedSharding(Mesh(devices[order].reshape(2, 2), ("x", "y")), spec)
        with jax.transfer_guard("disallow_explicit"):
            y = jax.device_put(x, target)
        assert y.sharding == target
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(shard.data, numbers(8, 2)[shard.index])


def test_keys_are_split_as_their_seeds() -> None:
    seeds = jax.device_put(np.arange(16, dtype=np.uint32).reshape(8, 2), sharded(P("data")))
    keys = jax.jit(lambda s: jax.vmap(jax.vmap(jax.random.key))(s).T)(seeds)
    assert keys.sharding.is_equivalent_to(sharded(P(None, "data")), 2)
    expected = on_cpu(lambda: jax.random.key_data(jax.vmap(jax.random.key)(np.arange(16))))
    np.testing.assert_array_equal(
        jax.random.key_data(keys), expected.reshape(8, 2, -1).swapaxes(0, 1)
    )


def test_eager_operations() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data", "model")))
    n = numbers(8, 16)
    np.testing.assert_array_equal(x[3], n[3])
    np.testing.assert_array_equal(x[2:6, ::3], n[2:6, ::3])
    np.testing.assert_array_equal(x.at[1, 2].set(5)[1], np.concatenate([n[1, :2], [5], n[1, 3:]]))
    np.testing.assert_array_equal(
        jnp.concatenate([x, x]).reshape(-1), np.concatenate([n, n]).reshape(-1)
    )
    np.testing.assert_array_equal(jnp.sort(-x, axis=0), np.sort(-n, axis=0))
    np.testing.assert_array_equal(jnp.where(x > 7, x, 0).sum(), np.where(n > 7, n, 0).sum())
    assert [int(row[0]) for row in x] == [int(row[0]) for row in n]


def test_random_numbers_are_jax_s() -> None:
    for draw in (jax.random.uniform, jax.random.normal, jax.random.bits):
        key = jax.random.key(7)
        got = jax.jit(draw, static_argnums=1, out_shardings=sharded(P("data")))(key, (8, 16))
        np.testing.assert_allclose(got, on_cpu(lambda: draw(jax.random.key(7), (8, 16))), rtol=1e-6)


def test_linear_algebra() -> None:
    a = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    s = jax.device_put(a @ a.T + np.eye(6, dtype=np.float32), jax.devices()[1])
    for f in (jnp.linalg.cholesky, jnp.linalg.inv, jnp.linalg.eigvalsh, jnp.linalg.det):
        np.testing.assert_allclose(f(s), on_cpu(f, s), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jnp.linalg.solve(s, a), np.linalg.solve(np.asarray(s), a), atol=1e-3)


# ---- lifetime ----


def test_donation() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, numbers(8, 16) + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1
    step = jax.jit(lambda a: a * 0.5, donate_argnums=0)
    for _ in range(50):
        y = step(y)
    assert np.asarray(y).shape == (8, 16)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_what_no_result_can_use_is_not_donated() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    jax.jit(lambda a: a @ a.T, donate_argnums=0)(x)
    assert not x.is_deleted()
    np.testing.assert_array_equal(x, numbers(8, 16))


def test_a_donated_array_is_used_once() -> None:
    f = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
    x = jax.device_put(numbers(8), sharded(P("data")))
    with pytest.raises(Exception, match="donate"):
        f(x, x)


def test_deletion() -> None:
    x = jax.device_put(numbers(8), sharded(P("data")))
    y = x + 1
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(y, numbers(8) + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        jax.jit(jnp.sin)(x)


def test_readiness() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    y = jax.jit(lambda a: a @ a.T)(x)
    assert y.block_until_ready() is y
    assert y.is_ready()
    jax.block_until_ready({"a": x, "b": [y, y + 1]})


def test_many_steps_leave_nothing() -> None:
    step = jax.jit(lambda a, b: (a + b, b * 0.999))
    a = jax.device_put(np.zeros((8, 16), np.float32), sharded(P("data")))
    b = jax.device_put(np.ones((8, 16), np.float32), sharded(P("data")))
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(500):
        a, b = step(a, b)
    gc.collect()
    assert len(jax.live_arrays()) == before
    np.testing.assert_allclose(a[0, 0], (1 - 0.999**500) / 0.001, rtol=1e-3)


# ---- errors ----


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(Exception, match=r"incompatible shapes|add got"):
        jax.jit(lambda a, b: a + b)(jnp.ones(3), jnp.ones(4))
    x = jax.device_put(numbers(8), jax.devices()[0])
    y = jax.device_put(numbers(8), jax.devices()[1])
    with pytest.raises(ValueError, match="device"):
        jax.jit(lambda a, b: a + b)(x, y)


# ---- callbacks ----


def test_debug_print(capfd: pytest.CaptureFixture[str]) -> None:
    @jax.jit
    def f(a: jax.Array) -> jax.Array:
        jax.debug.print("sum {s}", s=a.sum())
        return a + 1

    x = jax.device_put(numbers(8), sharded(P("data")))
    np.testing.assert_array_equal(f(x), numbers(8) + 1)
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == ["sum 28.0"]

    @jax.jit
    def g(a: jax.Array) -> jax.Array:
        for i in range(3):
            jax.debug.print("step {i}", i=i, ordered=True)
        return a + 1

    for _ in range(2):
        np.testing.assert_array_equal(g(numbers(8)), numbers(8) + 1)
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == ["step 0", "step 1", "step 2"] * 2


def test_debug_print_of_each_shard(capfd: pytest.CaptureFixture[str]) -> None:
    def body(a: jax.Array) -> jax.Array:
        jax.debug.print("shard {i}: {a}", i=lax.axis_index("model"), a=a)
        return a

    mesh = mesh_of(model=4)
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("model"), out_specs=P("model")))
    f(numbers(4)).block_until_ready()
    jax.effects_barrier()
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [f"shard {i}: [{float(i)}]".replace(".0", ".") for i in range(4)]


def test_pure_callback() -> None:
    def host(a: np.ndarray) -> np.ndarray:
        return np.asarray(a) * 2

    def f(a: jax.Array) -> jax.Array:
        return jax.pure_callback(host, jax.ShapeDtypeStruct(a.shape, a.dtype), a) + 1

    x = numbers(8)
    np.testing.assert_array_equal(jax.jit(f)(x), x * 2 + 1)
    np.testing.assert_array_equal(jax.jit(f)(jax.device_put(x, sharded(P("data")))), x * 2 + 1)


def test_a_callback_outlives_its_function() -> None:
    """JAX forgets a function's module while its last run is still on its way."""
    for i in range(20):
        f = jax.jit(lambda a: jax.pure_callback(slowly, jax.ShapeDtypeStruct((), np.float32), a))
        out = f(jnp.float32(i))
        del f
        gc.collect()
        assert float(out) == i + 1


def slowly(a: np.ndarray) -> np.ndarray:
    time.sleep(0.01)
    return np.asarray(a) + np.float32(1)


def test_a_callback_that_goes_leaves_the_reader_free() -> None:
    """Its function is let go in Python, while somebody who holds Python's lock waits for an answer."""
    for _ in range(20):
        f = jax.jit(lambda a: jax.pure_callback(slowly, a, a))
        running = f(jnp.float32(1))
        del f
        gc.collect()
        while not running.is_ready():
            assert jax.devices()[0].memory_stats()
        assert float(running) == 2


def test_io_callback_in_order() -> None:
    seen: list[int] = []

    @jax.jit
    def f(n: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            jax.experimental.io_callback(lambda v: seen.append(int(v)), None, i, ordered=True)
            return total + i

        return lax.fori_loop(0, n, body, 0)

    assert int(f(5)) == 10
    jax.effects_barrier()
    assert seen == list(range(5))


def test_ordered_callbacks_of_a_sharded_program() -> None:
    """One device calls for all, in the program's order; with results and without, in loops too."""
    seen: list[float] = []

    def note(v: np.ndarray) -> None:
        seen.append(float(v))

    def count(v: np.ndarray) -> np.ndarray:
        seen.append(float(v))
        return np.asarray(len(seen), np.float32)

    @jax.jit
    def f(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        callback = partial(jax.experimental.io_callback, ordered=True)
        callback(note, None, a.sum())
        many = callback(count, jax.ShapeDtypeStruct((), np.float32), a[0])
        callback(note, None, 7.0)

        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            callback(note, None, i)
            return total + i

        return a + many, lax.fori_loop(0, 3, body, jnp.float32(0))

    x = jax.device_put(numbers(8), sharded(P("data")))
    for _ in range(5):
        seen.clear()
        moved, total = f(x)
        np.testing.assert_array_equal(moved, numbers(8) + 2)
        assert float(total) == 3
        jax.effects_barrier()
        assert seen == [28, 0, 7, 0, 1, 2]


def test_a_raising_callback_is_an_error() -> None:
    def host(a: np.ndarray) -> np.ndarray:
        raise ValueError("no such thing")

    f = jax.jit(lambda a: jax.pure_callback(host, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
    with pytest.raises(Exception, match="no such thing"):
        np.asarray(f(numbers(4)))
    np.testing.assert_array_equal(jax.jit(lambda a: a + 1)(numbers(4)), numbers(4) + 1)


# ---- introspection ----


def test_compiled_programs_describe_themselves() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    compiled = jax.jit(lambda a: jnp.sum(a * 2, axis=0)).lower(x).compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.input_shardings[0][0].is_equivalent_to(sharded(P("data")), 2)
    assert compiled.memory_analysis().argument_size_in_bytes == 8 * 16 * 4 // 2
    assert compiled.cost_analysis()["flops"] >= 0
    np.testing.assert_array_equal(compiled(x), numbers(8, 16).sum(0) * 2)


def test_compiled_programs_name_the_users_lines() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    compiled = jax.jit(lambda rows: jnp.sum(jnp.tanh(rows), axis=0)).lower(x).compile()
    text = compiled.as_text()
    assert __file__ in text
    assert 'op_name="rows"' in text
    assert re.search(r'op_name="jit\(.*\)/tanh"', text)
    assert re.search(r'op_name="jit\(.*\)/reduce_sum/all-reduce"', text)
    assert '"-"' not in text  # nor those of ours


def test_custom_partitioning() -> None:
    """The user's rule isn't needed, so it isn't asked: the function is partitioned as any other."""

    @custom_partitioning
    def f(a: jax.Array) -> jax.Array:
        return jnp.sort(a, axis=1) * 2

    def refuse(*_: Any) -> Any:
        raise AssertionError("the rule was asked")

    f.def_partition(
        partition=refuse, infer_sharding_from_operands=refuse, sharding_rule="i j -> i j"
    )
    host = np.flip(numbers(8, 8))
    for spec in (P("data"), P("model", "data"), P()):
        x = jax.device_put(host, sharded(spec))
        np.testing.assert_array_equal(jax.jit(f)(x), np.sort(host, axis=1) * 2)


def test_shardings_are_inspected() -> None:
    """Outside of a function, in it, in a scan's body; the callback's own error is not ours."""
    seen: list[P] = []

    def note(sharding: Any) -> None:
        seen.append(sharding.spec)

    x = jax.device_put(numbers(8, 8), sharded(P("data", "model")))
    jax.debug.inspect_array_sharding(x, callback=note)

    @jax.jit
    def f(a: jax.Array) -> jax.Array:
        jax.debug.inspect_array_sharding(a.T, callback=note)

        def body(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            c = jnp.sin(c)
            jax.debug.inspect_array_sharding(c, callback=note)
            return c, None

        return lax.scan(body, a, None, length=2)[0]

    np.testing.assert_allclose(f(x), np.sin(np.sin(numbers(8, 8))), rtol=1e-5)
    assert seen == [P("data", "model"), P("model", "data"), P("data", "model")]

    def fails(sharding: Any) -> None:
        raise ValueError("nobody's business")

    def g(a: jax.Array) -> jax.Array:
        jax.debug.inspect_array_sharding(a + 1, callback=fails)
        return a * 2

    np.testing.assert_array_equal(jax.jit(g)(x), numbers(8, 8) * 2)


def test_programs_can_be_serialized() -> None:
    x = jax.device_put(numbers(8, 16), sharded(P("data")))
    compiled = jax.jit(lambda a: a * 3).lower(x).compile()
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    np.testing.assert_array_equal(again(x), numbers(8, 16) * 3)


def test_one_buffer_to_many_devices() -> None:
    """A value on one device, used with a sharded one: JAX copies it to every device from the one."""
    x = jax.device_put(numbers(8, 16), sharded(P("data", "model")))
    s = jnp.float32(3)
    np.testing.assert_array_equal(jax.jit(lambda a, b: a * b)(x, s), numbers(8, 16) * 3)
    np.testing.assert_array_equal(jax.device_put(s + 1, sharded(P())), 4)
