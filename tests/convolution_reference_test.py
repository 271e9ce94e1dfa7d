"""The reference on values worked out by hand, and against XLA where that can be trusted."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from convolution_reference import by_definition, convolution
from jax import lax

Numbers = lax.ConvDimensionNumbers
NCW = Numbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
PLAIN: dict[str, Any] = {
    "window_strides": (1,),
    "padding": ((0, 0),),
    "lhs_dilation": (1,),
    "rhs_dilation": (1,),
    "dimension_numbers": NCW,
}


def line(*values: int) -> np.ndarray:
    return np.array(values, np.float32).reshape(1, 1, -1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [12, 23, 34, 45]),
        ({"window_reversal": True}, [21, 32, 43, 54]),
        ({"window_strides": (3,)}, [12, 45]),
        ({"padding": ((1, 2),)}, [1, 12, 23, 34, 45, 50, 0]),
        ({"padding": ((-2, -1),)}, [34]),
        ({"padding": ((-9, 0),)}, []),
        ({"padding": ((-1, 1),)}, [23, 34, 45, 50]),
        # 1 0 2 0 3 0 4 0 5
        ({"lhs_dilation": (2,)}, [10, 2, 20, 3, 30, 4, 40, 5]),
        # 0 2 0 3 0 4 0 5: padding counts what dilation put in
        ({"lhs_dilation": (2,), "padding": ((-1, 0),)}, [2, 20, 3, 30, 4, 40, 5]),
        ({"rhs_dilation": (3,)}, [14, 25]),
        ({"rhs_dilation": (2,), "window_strides": (2,), "padding": ((0, 1),)}, [13, 35]),
    ],
)
def test_windows_of_a_line(settings: dict[str, Any], expected: list[int]) -> None:
    """1 2 3 4 5 with the kernel 10 1."""
    out = convolution(line(1, 2, 3, 4, 5), line(10, 1), **(PLAIN | settings))
    np.testing.assert_array_equal(out[0, 0], expected)


def test_features_are_summed_in_their_groups() -> None:
    image = np.array([1, 10, 100, 1000], np.int32).reshape(1, 4, 1)
    kernel = np.array([[1, 2], [3, 4]], np.int32).reshape(2, 2, 1)
    out = convolution(image, kernel, **PLAIN, feature_group_count=2)
    np.testing.assert_array_equal(out.ravel(), [21, 4300])


def test_a_batch_group_meets_its_own_kernels() -> None:
    image = np.array([1, 10, 100, 1000], np.int32).reshape(4, 1, 1)
    kernel = np.array([2, 3, 4, 5], np.int32).reshape(4, 1, 1)
    out = convolution(image, kernel, **PLAIN, batch_group_count=2)
    np.testing.assert_array_equal(out[..., 0], [[2, 3, 400, 500], [20, 30, 4000, 5000]])


def test_dimensions_are_where_the_numbers_say() -> None:
    image = np.arange(12, dtype=np.float32).reshape(3, 2, 2)  # space, batch, features
    kernel = np.array([[[1, 0, 2]], [[0, 1, 0]]], np.float32)  # features, space, results
    numbers = Numbers((1, 2, 0), (2, 0, 1), (2, 0, 1))
    out = convolution(image, kernel, **(PLAIN | {"dimension_numbers": numbers}))
    # Results, space, batch: the first feature, the second, twice the first.
    np.testing.assert_array_equal(out, [image[..., 0], image[..., 1], 2 * image[..., 0]])


def test_what_is_compiled_meanwhile_convolves_here() -> None:
    """A kernel's gradient that XLA's CPU backend has wrong, by the sum that it is."""
    cpu = jax.devices("cpu")[0]
    rng = np.random.default_rng(1)
    image = rng.integers(-3, 4, (4, 1, 7)).astype(np.float32)
    kernel = rng.integers(-3, 4, (4, 1, 2)).astype(np.float32)

    def fn(a: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(a, w, (1,), [(-1, 0)], (2,), (1,), batch_group_count=2)

    with jax.default_device(cpu), by_definition():
        out, back = jax.vjp(jax.jit(fn), image, kernel)
        gradient = back(np.ones(out.shape, np.float32))[1]
    place = np.eye(kernel.size, dtype=np.float32).reshape(-1, *kernel.shape)
    settings = PLAIN | {"padding": ((-1, 0),), "lhs_dilation": (2,), "batch_group_count": 2}
    wanted = [convolution(image, one, **settings).sum() for one in place]
    np.testing.assert_array_equal(np.ravel(gradient), wanted)
