"""Meshes whose axes follow the topology: `make_mesh`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    *,
    axis_types: Any = None,
    devices: Sequence[Any] | None = None,
) -> Any:
    """A `jax.sharding.Mesh` whose later axes lie closer together.

    Devices are put in the order of the topology (island, host in the island, device on the host) and
    the mesh is filled row-major: the last axis runs inside a host as far as a host goes, then inside
    an island, and only what is left crosses islands. So give first the axis that sends least, such as
    data or pipeline, and last the one that sends most, such as model:

        mesh = shardway.make_mesh((2, 4), ("data", "model"))

    `jax.make_mesh` does the same inside one island and refuses several. `axis_shapes`: the size of
    each axis; with fewer devices than there are, the first hosts and islands are used up before others
    are begun. `axis_types`: as for `Mesh`, all Auto when not given. `devices`: jax.devices() when not
    given.

    Raises ValueError for sizes that are not positive, another number of names, or too few devices.

    Source: GSPMD (arXiv 2105.04663) §3.1, where a mesh's device order is the user's to choose.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh

    shape = tuple(int(size) for size in axis_shapes)
    names = tuple(axis_names)
    if len(shape) != len(names):
        raise ValueError(f"make_mesh: {len(shape)} sizes {shape} for {len(names)} axes {names}")
    if any(size < 1 for size in shape):
        raise ValueError(f"make_mesh: the sizes {shape} must be positive")
    chosen = sorted(jax.devices() if devices is None else devices, key=_place)
    count = math.prod(shape)
    if count > len(chosen):
        raise ValueError(f"make_mesh: {shape} needs {count} devices, there are {len(chosen)}")
    grid = np.empty(count, object)
    grid[:] = chosen[:count]
    return Mesh(grid.reshape(shape), names, axis_types=axis_types)


def places_of(devices: Sequence[Any]) -> list[str]:
    """Where devices are and what links between them cost, as `shardway compile` takes it."""
    if not all(hasattr(d, "slice_index") and hasattr(d, "link_prices") for d in devices):
        return []  # of another platform
    islands: dict[int, int] = {}
    hosts: dict[tuple[int, int], int] = {}  # numbered as they occur
    places = [
        (
            islands.setdefault(d.slice_index, len(islands)),
            hosts.setdefault((d.slice_index, d.host_index), len(hosts)),
        )
        for d in devices
    ]
    if len(hosts) <= 1:
        return []
    return [
        "--islands=" + ",".join(str(island) for island, _ in places),
        "--hosts=" + ",".join(str(host) for _, host in places),
        f"--links={devices[0].link_prices}",
    ]


def _place(device: Any) -> tuple[int, int, int]:
    return (getattr(device, "slice_index", 0), getattr(device, "host_index", 0), device.id)
