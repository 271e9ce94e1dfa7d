"""jax.lax.psend and jax.lax.precv on 8 devices; each program's twin uses jax.lax.ppermute."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.skipif(not hasattr(lax, "psend"), reason="this JAX has no psend")

Pairs = list[tuple[int, int]]
CHAIN: Pairs = [(i, i + 1) for i in range(7)]


def on_each(f: Callable[..., Any], *args: Any, **shape: int) -> np.ndarray:
    """`f` in a shard_map over all devices; the first axis of its arguments is split over all of it."""
    sizes = shape or {"x": 8}
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(tuple(sizes.values())), tuple(sizes))
    spec = P(tuple(sizes))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return np.asarray(jax.jit(mapped)(*args))


def move(x: jax.Array, pairs: Pairs, axis: str = "x") -> jax.Array:
    token = lax.psend(x, axis, pairs)
    return lax.precv(token, jax.ShapeDtypeStruct(x.shape, x.dtype), axis, pairs)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("pairs", [[(0, 1)], CHAIN, [(7, 0)], [(3, 1), (5, 2)]], ids=str)
def test_as_ppermute_does(pairs: Pairs) -> None:
    x = numbers(16, 3)
    np.testing.assert_array_equal(
        on_each(lambda a: move(a, pairs), x), on_each(lambda a: lax.ppermute(a, "x", pairs), x)
    )


def test_along_one_axis_of_two() -> None:
    x = numbers(16, 3)
    pairs = [(0, 1), (1, 2)]
    np.testing.assert_array_equal(
        on_each(lambda a: move(a, pairs, "y"), x, x=2, y=4),
        on_each(lambda a: lax.ppermute(a, "y", pairs), x, x=2, y=4),
    )


def test_there_and_back_in_a_loop() -> None:
    def rounds(there: Callable[..., Any]) -> Callable[..., Any]:
        def step(a: jax.Array, _: None) -> tuple[jax.Array, None]:
            received, _ = lax.optimization_barrier((there(a, CHAIN), a))
            return jnp.sin(received) + there(a * 2, [(7, 0)]), None

        return lambda a: lax.scan(step, a, None, length=5)[0]

    x = numbers(16, 3)
    np.testing.assert_allclose(
        on_each(rounds(move), x),
        on_each(rounds(lambda a, p: lax.ppermute(a, "x", p)), x),
        rtol=1e-6,
    )


def test_receive_compute_send_on() -> None:
    """What a pipeline's stages do: device i sends x0 * … * xi + ….."""

    def stage(a: jax.Array) -> jax.Array:
        received = lax.precv(
            lax.create_token(), jax.ShapeDtypeStruct((1,), jnp.float32), "x", CHAIN
        )
        made = received * 2 + a
        lax.psend(made, "x", CHAIN)
        return made

    x = numbers(8)
    want = [x[0]]
    for value in x[1:]:
        want.append(want[-1] * 2 + value)
    np.testing.assert_array_equal(on_each(stage, x), want)


def test_errors_name_both_lines() -> None:
    def other_pairs(a: jax.Array) -> jax.Array:
        token = lax.psend(a, "x", [(0, 1)])
        return lax.precv(token, jax.ShapeDtypeStruct(a.shape, a.dtype), "x", [(1, 0)])

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"nothing (sends|receives)") as error:
        on_each(other_pairs, numbers(8))
    assert str(error.value).count("send_recv_test.py") == 2
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"in a circle.*ppermute"):
        on_each(lambda a: move(a, [(0, 1), (1, 0)]), numbers(8))
    with pytest.raises(NotImplementedError, match="psend"):
        on_each(jax.grad(lambda a: jnp.sum(move(a, CHAIN))), numbers(8))
