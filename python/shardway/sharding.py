"""Annotations by mesh axis: `mesh_split`, as in the GSPMD paper."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

X = TypeVar("X")

Axes = str | Sequence[str] | int | None


def mesh_split(x: X, mesh: Any, dims: Sequence[Axes]) -> X:
    """Annotates: dimension i of `x` is split over the mesh axis (or axes) `dims[i]`.

    `x`: an array of rank len(dims), inside or outside of `jax.jit`; the result is equal to it. `mesh`:
    a `jax.sharding.Mesh`. `dims`: for each dimension the name of a mesh axis, several names (major to
    minor), the number of a mesh axis as in the paper (-1: not split), or None: not split.

    Inside of a jitted function this is one annotation of a few; the compiler completes the rest, and
    pads dimensions whose size is no multiple of the axes'. Inside of a `shard_map` over other axes
    `x` is a shard, which is split further. Outside of both it moves the array's shards to their
    devices, and sizes must be multiples.

    Raises ValueError that names the array's shape and the axis, for an axis that the mesh lacks, an
    axis used twice, another number of dimensions, or sizes that do not divide outside of `jax.jit`.

    Source: GSPMD (arXiv 2105.04663) §3.2.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    leave_out_of_tracebacks(__file__)
    shape = jnp.shape(x)
    about = f"mesh_split of an array of shape {shape}"
    if not hasattr(mesh, "axis_names"):
        raise ValueError(f"{about}: {mesh!r} is no mesh; give a jax.sharding.Mesh")
    if len(dims) != len(shape):
        raise ValueError(f"{about}: {len(dims)} entries {tuple(dims)} for {len(shape)} dimensions")
    names = tuple(mesh.axis_names)
    used: set[str] = set()
    spec: list[tuple[str, ...] | None] = []
    for entry in dims:
        axes = _axes(entry, names, about)
        for axis in axes:
            if axis not in names:
                raise ValueError(f"{about}: the mesh has no axis {axis!r}, only {names}")
            if axis in used:
                raise ValueError(f"{about}: the axis {axis!r} is used twice")
            used.add(axis)
        spec.append(axes or None)
    around = jax.sharding.get_abstract_mesh()  # knows which axes a shard_map around this has taken
    inside = not around.empty and around.axis_names == names
    sharding = NamedSharding(around if inside else mesh, PartitionSpec(*spec))
    result: X = (
        jax.lax.with_sharding_constraint(x, sharding)
        if isinstance(x, jax.core.Tracer)
        else jax.device_put(x, sharding)
    )
    return result


@functools.cache
def leave_out_of_tracebacks(file: str) -> None:
    """Operators made in this file carry the line of whoever called it."""
    from jax._src import source_info_util

    source_info_util.register_exclusion(file)


def _axes(entry: Axes, names: tuple[str, ...], about: str) -> tuple[str, ...]:
    if entry is None:
        return ()
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, int):
        if entry == -1:
            return ()
        if not 0 <= entry < len(names):
            raise ValueError(
                f"{about}: the mesh has no axis number {entry}, only {len(names)} axes"
            )
        return (names[entry],)
    return tuple(entry)
