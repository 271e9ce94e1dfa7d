"""Random operators for spmd_random.py: one function for each family, each gives a case.

A case is a function of arrays, the arrays, and a name that says what the operator is. Values are small
integers, in whatever element type, so that sums do not depend on their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import written_operators as w
from jax import lax
from jax._src.lax import windowed_reductions
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

Array = np.ndarray
Dims = tuple[int, ...]


@dataclass
class Op:
    """One operator on arrays."""

    name: str
    fn: Callable[..., Any]
    args: list[Array]


class Draw:
    """Random choices, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def of(self, choices: Any) -> Any:
        return choices[self.between(0, len(choices) - 1)]

    def dims(self, rank: int | None = None, low: int = 1, high: int = 11) -> Dims:
        rank = self.between(1, 3) if rank is None else rank
        # Sizes near the number of devices, so that tiles end in padding, or are nothing but padding.
        return tuple(
            self.between(max(low, 3), high) if self.chance(0.8) else low for _ in range(rank)
        )

    def subset(self, n: int, least: int = 0) -> list[int]:
        return sorted(
            int(i) for i in self.rng.choice(n, size=self.between(least, n), replace=False)
        )

    def spec(self, mesh: Mesh, shape: Dims) -> P:
        """Axes dealt out to dimensions; some are left over."""
        dims: list[list[str]] = [[] for _ in shape]
        for axis in self.rng.permutation(list(mesh.axis_names)):
            if shape and self.chance(0.75):
                dims[self.between(0, len(shape) - 1)].append(str(axis))
        return P(*(tuple(axes) if axes else None for axes in dims))

    def dtype(self) -> Any:
        return self.of([np.float32, np.float32, np.float32, np.int32, np.int8, np.uint8, bool])

    def array(self, dims: Dims, dtype: Any = np.float32, low: int = -4, high: int = 4) -> Array:
        if dtype is bool:
            return self.rng.integers(0, 2, dims).astype(bool)
        if np.dtype(dtype).kind == "u":
            low = max(low, 0)
        if np.dtype(dtype).kind == "c":
            return self.array(dims, np.float32) + 1j * self.array(dims, np.float32)
        return self.rng.integers(low, high + 1, dims).astype(dtype)

    def distinct(self, dims: Dims, dtype: Any = np.float32) -> Array:
        return self.rng.permutation(math.prod(dims)).reshape(dims).astype(dtype)


def uneven(mesh: Mesh, shape: Dims, spec: P) -> bool:
    """Whether some device has another shard than others."""
    return any(
        size % math.prod(mesh.shape[a] for a in axes or ()) != 0
        for size, axes in zip(shape, spec, strict=False)
    )


def number(d: Draw) -> Any:
    return d.of([np.float32, np.float32, np.int32, np.int8, np.uint8])


# ---- what keeps its shape, or nearly ----


def elementwise(d: Draw) -> Op:
    dims = d.dims()
    fn = d.of(
        [
            lambda a, b: a * b + 1,
            lambda a, b: jnp.where(a > b, a, -b),
            lambda a, b: jnp.maximum(a, b) - lax.broadcasted_iota(a.dtype, a.shape, a.ndim - 1),
            lambda a, b: a + np.arange(a.size, dtype=np.float32).reshape(a.shape) * b,
            lambda a, b: jnp.broadcast_to(a[None], (3, *a.shape)) + b,
            lambda a, b: (a[..., None] + b[..., None, :]).sum(-1) if a.ndim == 1 else a - b,
            lambda a, b: lax.optimization_barrier((a + b, a))[0],
        ]
    )
    return Op(f"elementwise {dims}", fn, [d.array(dims), d.array(dims)])


def transpose(d: Draw) -> Op:
    dims = d.dims()
    order = tuple(int(i) for i in d.rng.permutation(len(dims)))
    return Op(
        f"transpose {dims} {order}",
        lambda a: lax.transpose(a, order) + 1,
        [d.array(dims, number(d))],
    )


def reshape(d: Draw) -> Op:
    factors = [d.of([1, 2, 2, 3, 4, 5, 6, 7, 8]) for _ in range(d.between(2, 4))]

    def grouped() -> Dims:
        dims: list[int] = []
        for f in factors:
            if dims and d.chance(0.5):
                dims[-1] *= f
            else:
                dims.append(f)
        return tuple(dims)

    source, target = grouped(), grouped()
    if d.chance(0.2):
        target = tuple(int(i) for i in d.rng.permutation(target))
    return Op(
        f"reshape {source} to {target}",
        lambda a: a.reshape(target) * 2,
        [d.distinct(source, np.int32)],
    )


# ---- reductions ----


def reduce(d: Draw) -> Op:
    dims = d.dims()
    axes = tuple(d.subset(len(dims), 1))
    kind, dtype = d.of(["sum", "max", "min", "prod", "any", "all", "xor"]), number(d)
    if kind in ("any", "all"):
        dtype = bool
    if kind == "xor":
        dtype = np.int32
        fn = lambda a: lax.reduce(a, np.int32(0), lax.bitwise_xor, axes)  # noqa: E731
    else:
        fn = lambda a: getattr(jnp, kind)(a, axis=axes)  # noqa: E731
    low, high = (1, 2) if kind == "prod" else (-4, 4)
    return Op(f"{kind} {dims} over {axes}", fn, [d.array(dims, dtype, low, high)])


def argmax(d: Draw) -> Op:
    dims = d.dims()
    axis, largest = d.between(0, len(dims) - 1), d.chance(0.5)
    fn = (lambda a: jnp.argmax(a, axis)) if largest else (lambda a: jnp.argmin(a, axis))
    return Op(f"arg{'max' if largest else 'min'} {dims} over {axis}", fn, [d.array(dims)])


def reduce_variadic(d: Draw) -> Op:
    dims = d.dims()
    axes = tuple(d.subset(len(dims), 1))

    def closest(a: Any, b: Any) -> Any:  # smallest key, then the largest payload
        first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] > b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    def fn(k: jax.Array, v: jax.Array) -> Any:
        return lax.reduce((k, v), (np.float32(np.inf), np.int32(-1)), closest, axes)

    return Op(f"closest {dims} over {axes}", fn, [d.array(dims), d.distinct(dims, np.int32)])


def dot(d: Draw) -> Op:
    batch, contract = d.dims(d.between(0, 2)), d.dims(d.between(0, 2))
    lhs_free, rhs_free = d.dims(d.between(0, 1)), d.dims(d.between(0, 1))

    def side(free: Dims) -> tuple[Dims, list[int]]:
        all_dims = batch + contract + free
        order = [int(i) for i in d.rng.permutation(len(all_dims))]
        place = [order.index(i) for i in range(len(all_dims))]
        return tuple(all_dims[i] for i in order), place

    (lhs, at_l), (rhs, at_r) = side(lhs_free), side(rhs_free)
    nb, nc = len(batch), len(contract)
    numbers = (
        (tuple(at_l[nb : nb + nc]), tuple(at_r[nb : nb + nc])),
        (tuple(at_l[:nb]), tuple(at_r[:nb])),
    )
    dtype = d.of([np.float32, np.float32, np.int32])
    return Op(
        f"dot {lhs} {rhs} {numbers}",
        lambda a, b: lax.dot_general(a, b, numbers),
        [d.array(lhs, dtype), d.array(rhs, dtype)],
    )


# ---- windows ----


def convolution(d: Draw) -> Op:
    spatial = d.between(1, 2)
    groups = d.of([1, 1, 1, 2, 3])
    batched = groups > 1 and d.chance(0.4)
    batch = d.between(1, 4) * (groups if batched else 1)
    features_in, features_out = (
        d.between(1, 3) * (1 if batched else groups),
        d.between(1, 3) * groups,
    )
    image = tuple(d.between(3, 13) for _ in range(spatial))
    window = tuple(d.between(1, 4) for _ in range(spatial))
    settings = {
        "window_strides": tuple(d.between(1, 3) for _ in range(spatial)),
        "padding": [(d.between(-1, 3), d.between(-1, 3)) for _ in range(spatial)],
        "lhs_dilation": tuple(d.of([1, 1, 2, 3]) for _ in range(spatial)),
        "rhs_dilation": tuple(d.of([1, 1, 2]) for _ in range(spatial)),
        "batch_group_count": groups if batched else 1,
        "feature_group_count": 1 if batched else groups,
    }
    kernel_in = features_in // (1 if batched else groups)
    shapes = [(batch, features_in, *image), (features_out, kernel_in, *window)]
    fn = lambda a, w: lax.conv_general_dilated(a, w, **settings)  # noqa: E731
    return Op(f"conv {shapes} {settings}", fn, [d.array(s) for s in shapes])


def _window(d: Draw) -> tuple[Dims, dict[str, Any]]:
    dims = d.dims(d.between(1, 3))
    n = len(dims)
    return dims, {
        "window_dimensions": tuple(d.between(1, min(4, s)) for s in dims),
        "window_strides": tuple(d.between(1, 3) for _ in range(n)),
        "padding": [(d.between(0, 2), d.between(0, 2)) for _ in range(n)],
    }


def reduce_window(d: Draw) -> Op:
    dims, settings = _window(d)
    settings["base_dilation"] = tuple(d.of([1, 1, 2]) for _ in dims)
    settings["window_dilation"] = tuple(d.of([1, 1, 2]) for _ in dims)
    init, body = d.of([(0, lax.add), (-np.inf, lax.max), (np.inf, lax.min)])
    fn = lambda a: lax.reduce_window(a, np.float32(init), body, **settings)  # noqa: E731
    return Op(f"reduce_window {body.__name__} {dims} {settings}", fn, [d.array(dims)])


def max_pool_gradient(d: Draw) -> Op:
    dims, settings = _window(d)

    def pool(a: jax.Array) -> jax.Array:
        return lax.reduce_window(a, -jnp.inf, lax.max, **settings)

    def fn(a: jax.Array) -> Any:
        out, back = jax.vjp(pool, a)
        return back(jnp.round(jnp.abs(out).clip(0, 3)))[0]

    return Op(f"max_pool_gradient {dims} {settings}", fn, [d.distinct(dims)])


def select_and_scatter(d: Draw) -> Op:
    """Ties, infinities and padding; any selection, any way to combine what meets in a place."""
    dims, settings = _window(d)
    dtype = d.of([np.float32, np.int32])
    if len(dims) > 1:  # XLA's CPU backend breaks ties in some other order than the elements'
        values = d.distinct(dims, dtype)
    elif dtype is np.int32:
        values = d.array(dims, dtype)
    else:
        values = d.rng.choice([-np.inf, -np.inf, np.inf, 0, 1, -2], dims).astype(dtype)
    select = d.of([lax.ge, lax.gt, lax.lt, lambda a, b: lax.ge(lax.abs(a), lax.abs(b))])
    body, init = d.of([(lax.add, 0), (lax.max, -9), (lambda a, b: a * 2 + b, 1)])
    sources = jax.eval_shape(
        lambda a: lax.reduce_window(a, dtype(0), lax.max, **settings), values
    ).shape

    def fn(a: jax.Array, s: jax.Array) -> jax.Array:
        return windowed_reductions._select_and_scatter(
            a, select, *settings.values(), s, dtype(init), body
        )

    return Op(
        f"select_and_scatter {dims} {settings} {values.dtype}",
        fn,
        [values, d.array(sources, dtype)],
    )


def cumulative(d: Draw) -> Op:
    dims = d.dims()
    axis, reverse = d.between(0, len(dims) - 1), d.chance(0.5)
    kind = d.of([lax.cumsum, lax.cummax, lax.cummin, lax.cumprod])
    low, high = (1, 2) if kind is lax.cumprod else (-4, 4)
    fn = lambda a: kind(a, axis=axis, reverse=reverse)  # noqa: E731
    return Op(
        f"{kind.__name__} {dims} {axis} {reverse}", fn, [d.array(dims, np.float32, low, high)]
    )


def associative_scan(d: Draw) -> Op:
    dims = d.dims()
    axis = d.between(0, len(dims) - 1)
    return Op(
        f"associative_scan {dims} {axis}",
        lambda a: lax.associative_scan(jnp.add, a, axis=axis),
        [d.array(dims, np.int32)],
    )


# ---- slices ----


def static_slice(d: Draw) -> Op:
    dims = d.dims()
    start = tuple(d.between(0, s - 1) for s in dims)
    limit = tuple(d.between(a + 1, s) for a, s in zip(start, dims, strict=True))
    strides = tuple(d.between(1, 3) for _ in dims)
    return Op(
        f"slice {dims} {start} {limit} {strides}",
        lambda a: lax.slice(a, start, limit, strides),
        [d.array(dims, number(d))],
    )


def pad(d: Draw) -> Op:
    dims = d.dims()
    least = [-1 if s > 2 else 0 for s in dims]
    config = [(d.between(m, 3), d.between(m, 3), d.of([0, 0, 1, 2])) for m in least]
    dtype = number(d)
    return Op(
        f"pad {dims} {config}",
        lambda a: lax.pad(a, dtype(2), config),
        [d.array(dims, dtype)],
    )


def concatenate(d: Draw) -> Op:
    dims = d.dims()
    axis = d.between(0, len(dims) - 1)
    parts = [(*dims[:axis], d.between(1, 9), *dims[axis + 1 :]) for _ in range(d.between(2, 3))]
    dtype = number(d)
    return Op(
        f"concatenate {parts} {axis}",
        lambda *a: jnp.concatenate(a, axis),
        [d.array(p, dtype) for p in parts],
    )


def reverse_or_roll(d: Draw) -> Op:
    dims = d.dims()
    axes = tuple(d.subset(len(dims), 1))
    shift = d.between(-12, 12)
    if d.chance(0.5):
        return Op(f"reverse {dims} {axes}", lambda a: lax.rev(a, axes), [d.array(dims)])
    return Op(f"roll {dims} {axes} {shift}", lambda a: jnp.roll(a, shift, axes[0]), [d.array(dims)])


def _windowed(d: Draw) -> tuple[Dims, Dims, Array]:
    dims = d.dims()
    sizes = tuple(s if d.chance(0.3) else d.between(1, s) for s in dims)
    start = d.rng.integers(-3, 14, len(dims)).astype(d.of([np.int32, np.int32, np.int8]))
    return dims, sizes, start


def dynamic_slice(d: Draw) -> Op:
    dims, sizes, start = _windowed(d)
    return Op(
        f"dynamic_slice {dims} {sizes} at {start}",
        lambda a, s: lax.dynamic_slice(a, tuple(s), sizes),
        [d.array(dims, d.dtype()), start],
    )


def dynamic_update_slice(d: Draw) -> Op:
    dims, sizes, start = _windowed(d)
    dtype = d.dtype()
    return Op(
        f"dynamic_update_slice {dims} {sizes} at {start}",
        lambda a, u, s: lax.dynamic_update_slice(a, u, tuple(s)),
        [d.array(dims, dtype), d.array(sizes, dtype), start],
    )


# ---- gather and scatter ----


def _lookup(d: Draw) -> tuple[Dims, Dims, Dims, Dims, dict[str, Dims]]:
    """Operand, indices, windows and parts; the dimension numbers under gather's names."""
    dims = d.dims(d.between(1, 3))
    rank = len(dims)
    batch = [i for i in range(rank) if d.chance(0.2)]
    others = [i for i in range(rank) if i not in batch]
    mapped = [i for i in others if d.chance(0.7)]
    mapped = [int(i) for i in d.rng.permutation(mapped)]
    collapsed = [i for i in others if (i in mapped and d.chance(0.6))]
    free = d.dims(d.between(0, 2))
    index = [dims[i] for i in batch] + list(free)
    order = [int(i) for i in d.rng.permutation(len(index))]
    index = [index[i] for i in order]
    windows = tuple(
        1
        if i in batch or i in collapsed
        else (d.between(1, s) if i in mapped or d.chance(0.15) else s)
        for i, s in enumerate(dims)
    )
    offsets = [windows[i] for i in others if i not in collapsed]
    part_rank = len(offsets) + len(index)
    offset_dims = tuple(
        sorted(int(i) for i in d.rng.choice(part_rank, size=len(offsets), replace=False))
    )
    parts: list[int] = []
    left, right = list(offsets), list(index)
    for i in range(part_rank):
        parts.append(left.pop(0) if i in offset_dims else right.pop(0))
    numbers = {
        "offset_dims": offset_dims,
        "collapsed_slice_dims": tuple(collapsed),
        "start_index_map": tuple(mapped),
        "operand_batching_dims": tuple(batch),
        "start_indices_batching_dims": tuple(order.index(k) for k in range(len(batch))),
    }
    return dims, (*index, len(mapped)), windows, tuple(parts), numbers


def _indices(d: Draw, shape: Dims) -> Array:
    dtype = d.of([np.int32, np.int32, np.int8, np.uint8])
    return d.rng.integers(0 if dtype is np.uint8 else -2, 12, shape).astype(dtype)


def gather(d: Draw) -> Op:
    dims, index, windows, _, numbers = _lookup(d)
    mode = d.of(["clip", "clip", "fill"])
    how = lax.GatherDimensionNumbers(**numbers)
    return Op(
        f"gather {dims} {index} {windows} {numbers} {mode}",
        lambda a, i: lax.gather(a, i, how, windows, mode=mode),
        [d.array(dims, d.dtype()), _indices(d, index)],
    )


def scatter(d: Draw) -> Op:
    while True:
        dims, index, windows, parts, numbers = _lookup(d)
        # Of updates of one element and indices of no component XLA's CPU backend takes only one.
        if numbers["start_index_map"] or math.prod(windows) > 1:
            break
    how = lax.ScatterDimensionNumbers(
        update_window_dims=numbers["offset_dims"],
        inserted_window_dims=numbers["collapsed_slice_dims"],
        scatter_dims_to_operand_dims=numbers["start_index_map"],
        operand_batching_dims=numbers["operand_batching_dims"],
        scatter_indices_batching_dims=numbers["start_indices_batching_dims"],
    )
    body = d.of([lax.scatter, lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max])
    mode = d.of(["clip", "drop"])
    dtype = number(d)
    low, high = (1, 2) if body is lax.scatter_mul else (-4, 4)
    return Op(
        f"{body.__name__} {dims} {index} {parts} {numbers} {mode} {np.dtype(dtype)}",
        lambda a, i, u: body(a, i, u, how, mode=mode),
        [d.array(dims, dtype, low, high), _indices(d, index), d.array(parts, dtype, low, high)],
    )


def rows(d: Draw) -> Op:
    dims = d.dims(2)
    index = d.rng.integers(-dims[0], dims[0], d.dims(d.between(1, 2))).astype(np.int32)
    kind = d.of(["take", "set", "add", "along", "along_other"])
    update = d.array((*index.shape, dims[1]))
    if kind == "take":
        return Op(f"rows {dims} {index.shape}", lambda a, i: a[i], [d.array(dims), index])
    if kind.startswith("along"):
        axis = int(kind == "along")
        pick = d.rng.integers(0, dims[axis], dims).astype(np.int32)
        return Op(
            f"take_along_axis {dims} {axis}",
            lambda a, i: jnp.take_along_axis(a, i, axis),
            [d.array(dims), pick],
        )
    fn = (lambda a, i, u: a.at[i].set(u)) if kind == "set" else (lambda a, i, u: a.at[i].add(u))
    return Op(f"rows {kind} {dims} {index.shape}", fn, [d.array(dims), index, update])


def element_pairs(d: Draw) -> Op:
    """Indices made of iotas, the way advanced indexing writes them."""
    dims = d.dims(2)
    column = d.rng.integers(0, dims[1], dims[0]).astype(np.int32)
    set_it = d.chance(0.5)
    fn = (
        (lambda a, c: a.at[jnp.arange(a.shape[0]), c].add(3))
        if set_it
        else (lambda a, c: a[jnp.arange(a.shape[0]), c])
    )
    return Op(f"element_pairs {dims} {set_it}", fn, [d.array(dims), column])


# ---- what JAX does not write itself ----


def written(d: Draw) -> Op:
    kind = d.of([_einsum, _norm, _index_select, _shaped])
    return kind(d)


def _einsum(d: Draw) -> Op:
    sizes = dict(zip("abcd", d.dims(4), strict=True))
    left, right = ([*sizes][i : i + 3] for i in (0, 1))
    terms = [[label for label in labels if d.chance(0.8)] for labels in (left, right)]
    result = [label for label in sizes if label in terms[0] + terms[1] and d.chance(0.6)]
    order = [result[i] for i in d.rng.permutation(len(result))]
    config = f"{','.join(''.join(t) for t in terms)}->{''.join(order)}"
    arrays = [d.array(tuple(sizes[label] for label in t)) for t in terms]
    return Op(f"einsum {config} {sizes}", lambda a, b: w.einsum(config, a, b), arrays)


def _norm(d: Draw) -> Op:
    dims = d.dims(d.between(1, 3))
    feature = d.between(0, len(dims) - 1)
    x, g = d.array(dims), d.array(dims)
    vectors = [d.array((dims[feature],)) for _ in range(3)] + [d.array((dims[feature],), low=1)]
    kind = d.of(["training", "inference", "grad"])
    if kind == "training":
        fn = partial(w.batch_norm_training, feature=feature)
        return Op(f"batch norm {dims} {feature}", fn, [x, *vectors[:2]])
    if kind == "inference":
        fn = partial(w.batch_norm_inference, feature=feature)
        return Op(f"batch norm inference {dims} {feature}", fn, [x, *vectors])
    fn = partial(w.batch_norm_grad, feature=feature)
    return Op(f"batch norm gradient {dims} {feature}", fn, [x, *vectors[1:], g])


def _index_select(d: Draw) -> Op:
    dims = d.dims()
    dim = d.between(0, len(dims) - 1)
    batch = d.between(0, min(dim, 1))
    index = dims[:batch] + d.dims(d.between(1, 2))
    indices = d.rng.integers(0, dims[dim], index).astype(np.int32)
    fn = partial(w.torch_index_select, dim=dim, batch=batch)
    return Op(f"torch_index_select {dims} {index} {dim} {batch}", fn, [d.array(dims), indices])


def _shaped(d: Draw) -> Op:
    dims = d.dims()
    padding = [(d.between(0, 3), d.between(0, 3), d.between(0, 1)) for _ in dims]
    fn = d.of(
        [
            lambda a: w.broadcast(a, 3),
            lambda a: w.dynamic_broadcast_in_dim(a, 5),
            lambda a: w.dynamic_reshape(a, a.size),
            lambda a: a + w.dynamic_iota(a, a.ndim - 1),
            lambda a: w.dynamic_pad(a, jnp.float32(2), padding),
            w.rows_times,
            lambda a: w.second_of_tuple(a + 1, a),
        ]
    )
    return Op(f"shaped by an operand {dims} {padding}", fn, [d.array(dims)])


# ---- sorts ----


def sort(d: Draw) -> Op:
    dims = d.dims()
    axis, keys = d.between(0, len(dims) - 1), d.between(1, 2)
    operands = [d.array(dims, number(d)), d.array(dims), d.distinct(dims, np.int32)]
    return Op(
        f"sort {dims} {axis} {keys} {operands[0].dtype}",
        lambda *a: lax.sort(a, dimension=axis, num_keys=keys),
        operands,
    )


def sort_special(d: Draw) -> Op:
    dims = d.dims()
    axis = d.between(0, len(dims) - 1)
    values = d.rng.choice([np.nan, -np.inf, np.inf, -0.0, 0.0, 1, -1], dims).astype(np.float32)
    fn = d.of(
        [
            lambda a: jnp.argsort(a, axis),
            lambda a: jnp.argsort(a, axis, descending=True),
            lambda a: jnp.sort(a, axis),
            lambda a: jnp.nanmedian(a, axis),
        ]
    )
    return Op(f"sort_special {dims} {axis}", fn, [values])


def top_k(d: Draw) -> Op:
    dims = d.dims(high=23)
    axis = len(dims) - 1 if d.chance(0.7) else d.between(0, len(dims) - 1)
    k = d.between(1, dims[axis])
    kind = d.of(["top_k", "approx", "sorted", "argsorted"])
    values = d.array(dims, number(d)) if kind == "top_k" else d.array(dims)
    if kind == "approx":
        fn: Callable[..., Any] = lambda a: lax.approx_max_k(a, k, axis)[0]  # noqa: E731
    elif kind == "top_k":
        fn = lambda a: [jnp.moveaxis(r, -1, axis) for r in lax.top_k(jnp.moveaxis(a, axis, -1), k)]  # noqa: E731
    elif kind == "sorted":
        fn = lambda a: lax.slice_in_dim(jnp.sort(a, axis), 0, k, axis=axis)  # noqa: E731
    else:
        fn = lambda a: lax.slice_in_dim(jnp.argsort(a, axis), 0, k, axis=axis)  # noqa: E731
    return Op(f"{kind} {dims} {axis} k={k} {values.dtype}", fn, [values])


# ---- linear algebra, fft, random numbers ----


def fft(d: Draw) -> Op:
    dims = d.dims(d.between(1, 3))
    n = d.between(1, len(dims))
    kind = d.of(["fft", "ifft", "rfft", "irfft"])
    if kind == "irfft" and dims[-1] < 2:
        kind = "fft"
    dtype = np.float32 if kind == "rfft" else np.complex64
    fn = lambda a: getattr(jnp.fft, kind + "n")(a, axes=range(-n, 0))  # noqa: E731
    return Op(f"{kind} {dims} {n}", fn, [d.array(dims, dtype)])


def cholesky(d: Draw) -> Op:
    n, batch = d.between(1, 5), d.dims(d.between(0, 2))
    a = d.rng.standard_normal((*batch, n, n)).astype(np.float32)
    spd = a @ np.swapaxes(a, -1, -2) + n * np.eye(n, dtype=np.float32)
    if d.chance(0.5):
        return Op(f"cholesky {spd.shape}", jnp.linalg.cholesky, [spd])
    b = d.array((*batch, n, d.between(1, 6)))

    def solve(m: jax.Array, rhs: jax.Array) -> jax.Array:
        return lax.linalg.triangular_solve(m, rhs, left_side=True, lower=True)

    return Op(f"triangular_solve {spd.shape} {b.shape}", solve, [spd, b])


def random_numbers(d: Draw) -> Op:
    dims, seed = d.dims(), d.between(0, 99)
    kind = d.of(["uniform", "bits", "normal", "permutation", "rbg"])

    def fn(a: jax.Array) -> jax.Array:
        key = jax.random.key(seed, impl="rbg" if kind == "rbg" else "threefry2x32")
        if kind == "permutation":
            return jax.random.permutation(key, a)
        if kind in ("bits", "rbg"):
            return jax.random.bits(key, dims) + a.astype(jnp.uint32)
        return getattr(jax.random, kind)(key, dims) + a

    return Op(f"random {kind} {dims} {seed}", fn, [d.array(dims, np.float32, 0, 4)])


def random_bits(d: Draw) -> Op:
    """The generator that shows its state, both algorithms: a part makes its own numbers."""
    dims, dtype = d.dims(), d.of([np.uint8, np.uint16, np.uint32])
    algorithm = d.of(list(lax.RandomAlgorithm.__members__.values()))

    def fn(key: jax.Array) -> Any:
        return lax.rng_bit_generator(key, dims, dtype, algorithm)

    key = d.rng.integers(0, 2**32, 4, dtype=np.uint32)
    return Op(f"random_bits {algorithm} {dims} {np.dtype(dtype)}", fn, [key])


# ---- control flow ----


def loop(d: Draw) -> Op:
    dims = d.dims(2)

    def scan(a: jax.Array) -> Any:
        return lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(a.shape[1], a.dtype), a)

    def count(a: jax.Array) -> jax.Array:
        return lax.while_loop(lambda s: s.sum() < 60, lambda s: s + 1, jnp.abs(a))

    def branch(a: jax.Array) -> jax.Array:
        return lax.cond(a[0, 0] > 0, lambda v: v.sum(0), lambda v: v.max(0), a)

    fn = d.of([scan, count, branch])
    return Op(f"{fn.__name__} {dims}", fn, [d.array(dims, np.int32)])


FAMILIES: list[Callable[[Draw], Op]] = [
    elementwise,
    transpose,
    reshape,
    reduce,
    argmax,
    reduce_variadic,
    dot,
    convolution,
    reduce_window,
    max_pool_gradient,
    select_and_scatter,
    cumulative,
    associative_scan,
    static_slice,
    pad,
    concatenate,
    reverse_or_roll,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
    rows,
    element_pairs,
    written,
    sort,
    sort_special,
    top_k,
    fft,
    cholesky,
    random_numbers,
    random_bits,
    loop,
]
