"""Values that are unreduced over a mesh axis: the devices of the axis hold parts of a sum, and the program
means the sum. Between automatic regions and manual ones, and at the boundary of programs, where each
device's part shows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

X = np.arange(8 * 4, dtype=np.float32).reshape(8, 4)
Y = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def mesh() -> Mesh:
    devices = np.array(jax.devices()).reshape(4, 2)
    return Mesh(devices, ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def put(mesh: Mesh, value: np.ndarray, spec: P) -> jax.Array:
    return jax.device_put(value, NamedSharding(mesh, spec))


def shards(x: jax.Array) -> list[np.ndarray]:
    return [np.asarray(shard.data) for shard in x.addressable_shards]


def from_parts(mesh: Mesh, parts: list[np.ndarray], spec: P) -> jax.Array:
    """An array of whole parts, one for each device."""
    sharding = NamedSharding(mesh, spec)
    arrays = [jax.device_put(p, d) for p, d in zip(parts, mesh.devices.flat, strict=True)]
    return jax.make_array_from_single_device_arrays(parts[0].shape, sharding, arrays)


def test_into_a_manual_region(mesh: Mesh) -> None:
    """The parts are summed inside, over both axes or one of them."""
    with jax.set_mesh(mesh):

        @jax.shard_map(in_specs=P(unreduced={"x"}), out_specs=P())
        def total(parts: jax.Array) -> jax.Array:
            return jax.lax.psum(parts, "x")

        @jax.shard_map(in_specs=P(unreduced={"x"}), out_specs=P("x"))
        def scattered(parts: jax.Array) -> jax.Array:
            return jax.lax.psum_scatter(parts, "x", tiled=True)

        def product(x: jax.Array, y: jax.Array) -> jax.Array:
            return jnp.einsum("ab,bc->ac", x, y, out_sharding=P(unreduced={"x"}))

        x, y = put(mesh, X, P(None, "x")), put(mesh, Y, P("x", None))
        np.testing.assert_array_equal(jax.jit(lambda a, b: total(product(a, b)))(x, y), X @ Y)
        np.testing.assert_array_equal(jax.jit(lambda a, b: scattered(product(a, b)))(x, y), X @ Y)


def test_out_of_a_manual_region(mesh: Mesh) -> None:
    """The parts are summed outside."""
    with jax.set_mesh(mesh):

        @jax.shard_map(in_specs=(P("y", "x"), P("x")), out_specs=P("y", unreduced={"x"}))
        def parts(x: jax.Array, y: jax.Array) -> jax.Array:
            return jax.lax.pcast(x @ y, "x", to="unreduced")

        f = jax.jit(lambda a, b: jax.sharding.reshard(parts(a, b), P("y")) + 1)
        x, y = put(mesh, X, P("y", "x")), put(mesh, Y, P("x", None))
        np.testing.assert_array_equal(f(x, y), X @ Y + 1)


def test_a_result_has_a_part_on_each_device(mesh: Mesh) -> None:
    """Whole along the other axis, split along it, or both axes unreduced."""
    with jax.set_mesh(mesh):
        x, y = put(mesh, X, P(None, "x")), put(mesh, Y, P("x", None))
        out = jax.jit(lambda a, b: jnp.einsum("ab,bc->ac", a, b, out_sharding=P(unreduced={"x"})))(
            x, y
        )
        assert out.sharding == NamedSharding(mesh, P(None, None, unreduced={"x"}))
        for i, part in enumerate(shards(out)):
            np.testing.assert_array_equal(part, X[:, [i // 2]] @ Y[[i // 2]])
        for spec in (P(), P("x"), P("y"), P(None, "y"), P(("y", "x"))):
            np.testing.assert_array_equal(jax.reshard(out, spec), X @ Y)

        x = put(mesh, X, P("y", "x"))
        out = jnp.einsum("ab,bc->ac", x, y, out_sharding=P("y", unreduced={"x"}))
        for i, part in enumerate(shards(out)):
            rows = slice(4 * (i % 2), 4 * (i % 2) + 4)
            np.testing.assert_array_equal(part, X[rows, [i // 2]].reshape(4, 1) @ Y[[i // 2]])
        np.testing.assert_array_equal(jax.reshard(out, P("y")), X @ Y)

        v = put(mesh, np.arange(16.0, dtype=np.float32), P(("x", "y")))
        total = jax.lax.reduce_sum(v, [0], out_sharding=P(unreduced={"x", "y"}))
        np.testing.assert_array_equal(shards(total), [4 * i + 1 for i in range(8)])
        np.testing.assert_array_equal(jax.reshard(total, P()), 120)


def test_whole_and_split_arrays_become_parts(mesh: Mesh) -> None:
    """The first device of the axis has what was whole; what was split stays where it is."""
    with jax.set_mesh(mesh):
        for value in (X, np.array(7, np.int32)):
            for source in (value, put(mesh, value, P())):
                out = jax.device_put(source, P(unreduced={"x"}))
                for i, part in enumerate(shards(out)):
                    np.testing.assert_array_equal(part, value if i < 2 else np.zeros_like(value))
                np.testing.assert_array_equal(jax.reshard(out, P()), value)
        out = jax.reshard(put(mesh, X, P(("x", "y"))), P("y", unreduced={"x"}))
        np.testing.assert_array_equal(jax.reshard(out, P("y")), X)
        out = jax.reshard(put(mesh, X, P("x")), P(None, unreduced={"x"}))
        for i, part in enumerate(shards(out)):
            own = slice(2 * (i // 2), 2 * (i // 2) + 2)
            expected = np.zeros_like(X)
            expected[own] = X[own]
            np.testing.assert_array_equal(part, expected)


def test_no_part_is_taken_for_another(mesh: Mesh) -> None:
    """Eight different parts, put one by one: summed over the axis, each once; handed on as they are;
    gone when they are deleted or donated."""
    parts = [np.arange(6, dtype=np.float32) * 10**i for i in range(4)]
    both = [parts[i // 2] for i in range(8)]
    with jax.set_mesh(mesh):
        x = from_parts(mesh, both, P(unreduced={"x"}))
        np.testing.assert_array_equal(jax.reshard(x, P()), sum(parts))
        np.testing.assert_array_equal(jax.reshard(x, P("y")), sum(parts))
        twice = jax.jit(lambda a: a + a)(x)
        np.testing.assert_array_equal(shards(twice), [2 * part for part in both])
        same = jax.jit(lambda a: a)(x)
        np.testing.assert_array_equal(shards(same), both)
        with pytest.raises(NotImplementedError, match="unreduced"):
            np.asarray(x)
        again = jax.make_array_from_single_device_arrays(
            x.shape, x.sharding, [shard.data for shard in reversed(same.addressable_shards)][::-1]
        )
        x.delete()
        assert x.is_deleted()
        np.testing.assert_array_equal(jax.reshard(again, P()), sum(parts))
        given = jax.jit(lambda a: a + a, donate_argnums=0)(same)
        assert same.is_deleted()
        np.testing.assert_array_equal(shards(given), [2 * part for part in both])
        np.testing.assert_array_equal(jax.reshard(given, P()), 2 * sum(parts))


def test_other_meshes() -> None:
    """A part of the devices, and devices in an order of their own."""
    devices = np.array(jax.devices())
    for order in ([1, 5], [3, 1, 2, 0, 7, 4, 6, 5]):
        mesh = Mesh(devices[order], "x", axis_types=(AxisType.Explicit,))
        parts = [np.arange(8, dtype=np.float32) * 10**i for i in range(len(order))]
        with jax.set_mesh(mesh):
            x = from_parts(mesh, parts, P(unreduced={"x"}))
            np.testing.assert_array_equal(jax.reshard(x, P()), sum(parts))
            np.testing.assert_array_equal(jax.reshard(x, P("x")), sum(parts))
            out = jax.jit(lambda a: a + a)(x)
            np.testing.assert_array_equal(shards(out), [2 * part for part in parts])


def test_linear_operators_work_on_parts(mesh: Mesh) -> None:
    """Each beside the same on every device's part."""
    parts = [np.arange(24, dtype=np.float32).reshape(4, 6) * 10**i for i in range(4)]
    scale = np.arange(24, dtype=np.float32).reshape(4, 6)
    functions = (
        lambda a: a + a,
        lambda a: a * jax.reshard(jnp.asarray(scale), P(reduced={"x"})),
        lambda a: a.T,
        lambda a: a.reshape(8, 3),
        lambda a: jnp.concatenate([a, a], 1),
        lambda a: jnp.stack([a, a]),
        lambda a: jax.lax.slice(a, (1, 0), (3, 5)),
        lambda a: jax.lax.reduce_sum(a, [0]),
        lambda a: jax.lax.broadcast_in_dim(a, (2, 4, 6), (1, 2)),
        lambda a: a.astype(jnp.float16).astype(jnp.float32),
        lambda a: jax.lax.select(True, a, a),
    )
    with jax.set_mesh(mesh):
        x = from_parts(mesh, [parts[i // 2] for i in range(8)], P(unreduced={"x"}))
        for f in functions:
            out = jax.jit(f)(x)
            assert out.sharding.spec.unreduced == {"x"}
            expected = [np.asarray(jax.jit(f)(put(mesh, p, P(reduced={"x"})))) for p in parts]
            for i, part in enumerate(shards(out)):
                np.testing.assert_array_equal(part, expected[i // 2])
            np.testing.assert_allclose(jax.reshard(out, P()), sum(expected), rtol=1e-6)


def test_gradients(mesh: Mesh) -> None:
    """What is reduced forward is unreduced backward, by jit and eagerly, against a twin on one device."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x @ w))

    x = np.linspace(-1, 1, 16 * 8, dtype=np.float32).reshape(16, 8)
    w = np.linspace(-1, 1, 8 * 4, dtype=np.float32).reshape(8, 4)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = np.asarray(jax.grad(loss)(w, x))
    with jax.set_mesh(mesh):
        x_split = put(mesh, x, P("x"))
        w_reduced = put(mesh, w, P(reduced={"x"}))
        grad = jax.jit(jax.grad(loss))(w_reduced, x_split)
        assert grad.sharding.spec.unreduced == {"x"}
        for spec in (P(), P("x")):
            np.testing.assert_allclose(jax.reshard(grad, spec), expected, rtol=1e-5)
        for i, part in enumerate(shards(grad)):
            rows = x[4 * (i // 2) : 4 * (i // 2) + 4]
            np.testing.assert_allclose(part, rows.T @ np.cos(rows @ w), rtol=1e-5)


def test_a_loop_carries_parts(mesh: Mesh) -> None:
    """Gradients of several microbatches summed in parts: one all-reduce, when they are wanted."""
    xs = np.linspace(-1, 1, 5 * 8 * 4, dtype=np.float32).reshape(5, 8, 4)
    ys = np.linspace(-2, 1, 5 * 8 * 6, dtype=np.float32).reshape(5, 8, 6)

    def total(xs: jax.Array, ys: jax.Array) -> jax.Array:
        def step(sums: jax.Array, xy: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            part = jnp.einsum("nd,nf->df", *xy, out_sharding=P(unreduced={"x"}))
            return sums + part, None

        zeros = jax.reshard(jnp.zeros((4, 6)), P(unreduced={"x"}))
        return jax.lax.scan(step, zeros, (xs, ys))[0]

    with jax.set_mesh(mesh):
        args = put(mesh, xs, P(None, "x")), put(mesh, ys, P(None, "x"))
        out = jax.jit(total)(*args)
        for i, part in enumerate(shards(out)):
            rows = slice(2 * (i // 2), 2 * (i // 2) + 2)
            expected = np.einsum("snd,snf->df", xs[:, rows], ys[:, rows])
            np.testing.assert_allclose(part, expected, rtol=1e-5)
        np.testing.assert_allclose(
            jax.reshard(out, P()), np.einsum("snd,snf->df", xs, ys), rtol=1e-5
        )
        for f, collectives in ((total, 0), (lambda *args: jax.reshard(total(*args), P()), 1)):
            text = jax.jit(f).lower(*args).compile().as_text()
            assert text.count("shardway.collective") == collectives
