"""Convolution as StableHLO defines it, in NumPy: a truth that is not XLA's.

XLA's CPU backend is wrong for some kernel gradients with batch groups, negative padding and dilation, on
one device too. `by_definition()` has what JAX compiles meanwhile convolve here, by a callback.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.interpreters import mlir

Array = np.ndarray


def dilated_and_padded(
    image: Array, dilation: Sequence[int], padding: Sequence[tuple[int, int]]
) -> Array:
    """Zeros between the elements and around them, in all but the first two dimensions; negative padding drops."""
    for dim, (step, (low, high)) in enumerate(zip(dilation, padding, strict=True), 2):
        size = image.shape[dim]
        spread = np.zeros(
            (*image.shape[:dim], max(0, (size - 1) * step + 1), *image.shape[dim + 1 :]),
            image.dtype,
        )
        along = (slice(None),) * dim
        spread[(*along, slice(None, None, step))] = image
        around = [(0, 0)] * image.ndim
        around[dim] = (max(low, 0), max(high, 0))
        spread = np.pad(spread, around)
        image = spread[(*along, slice(max(-low, 0), max(spread.shape[dim] - max(-high, 0), 0)))]
    return image


def one_group(
    image: Array, kernel: Array, strides: Sequence[int], dilation: Sequence[int]
) -> Array:
    """(n, c, space…) with (o, c, space…), nothing left to pad: (n, o, space…), a sum over places of the window."""
    counts = []
    for size, window, stride, step in zip(
        image.shape[2:], kernel.shape[2:], strides, dilation, strict=True
    ):
        counts.append(max(0, (size - (window - 1) * step - 1) // stride + 1))
    result = np.zeros((image.shape[0], kernel.shape[0], *counts), image.dtype)
    for number, place in enumerate(itertools.product(*map(range, kernel.shape[2:]))):
        window = tuple(
            slice(at * step, at * step + count * stride, stride)
            for at, step, count, stride in zip(place, dilation, counts, strides, strict=True)
        )
        seen = image[(slice(None), slice(None), *window)]
        weights = kernel.reshape(*kernel.shape[:2], -1)[..., number]
        result += np.einsum("nc...,oc->no...", seen, weights)
    return result


def convolution(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    window_reversal: bool = False,
) -> Array:
    """The operator, in the widest type of the operands' kind."""
    kinds = ((np.complexfloating, np.complex128), (np.floating, np.float64), (np.integer, np.int64))
    wide = next(w for kind, w in kinds if jnp.issubdtype(lhs.dtype, kind))
    image = lhs.transpose(dimension_numbers.lhs_spec).astype(wide)
    kernel = rhs.transpose(dimension_numbers.rhs_spec).astype(wide)
    if window_reversal:
        kernel = np.flip(kernel, tuple(range(2, kernel.ndim)))
    image = dilated_and_padded(image, lhs_dilation, padding)
    groups = feature_group_count * batch_group_count
    images = np.split(image, groups, axis=0 if batch_group_count > 1 else 1)
    kernels = np.split(kernel, groups, axis=0)
    parts = [
        one_group(i, k, window_strides, rhs_dilation) for i, k in zip(images, kernels, strict=True)
    ]
    return np.concatenate(parts, axis=1).transpose(np.argsort(dimension_numbers.out_spec))


def _called_back(lhs: jax.Array, rhs: jax.Array, **params: Any) -> jax.Array:
    out = jax.eval_shape(lambda a, b: lax.conv_general_dilated_p.bind(a, b, **params), lhs, rhs)
    for unused in ("precision", "preferred_element_type", "out_sharding"):
        params.pop(unused, None)

    def host(a: Array, b: Array) -> Array:
        return convolution(np.asarray(a), np.asarray(b), **params).astype(out.dtype)

    return jax.pure_callback(host, out, lhs, rhs)


@contextmanager
def by_definition() -> Iterator[None]:
    """What is lowered for CPU inside convolves as defined, not as XLA does it."""
    table = mlir._platform_specific_lowerings["cpu"]
    before = table[lax.conv_general_dilated_p]
    rule: Callable[..., Any] = mlir.lower_fun(_called_back, multiple_results=False)
    mlir.register_lowering(lax.conv_general_dilated_p, rule, platform="cpu")
    try:
        yield
    finally:
        table[lax.conv_general_dilated_p] = before
