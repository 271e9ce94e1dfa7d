"""Values that are unreduced over a mesh axis between an automatic region and a manual one: the devices of
the axis hold parts of a sum, and the program means the sum."""

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
