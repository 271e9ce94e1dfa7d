"""Several islands: meshes follow the topology."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import shardway


def islands_along(mesh: Mesh, axis: str) -> int:
    """How many islands one line of devices along the axis touches, at most."""
    lines = np.moveaxis(mesh.devices, mesh.axis_names.index(axis), -1)
    return max(len({d.slice_index for d in line}) for line in lines.reshape(-1, lines.shape[-1]))


def test_last_axes_of_a_mesh_lie_closest_together() -> None:
    shuffled = list(jax.devices()[:8])
    random.Random(3).shuffle(shuffled)
    for devices in (None, shuffled):
        mesh = shardway.make_mesh((2, 4), ("data", "model"), devices=devices)
        assert [d.id for d in mesh.devices.flat] == list(range(8))
        assert islands_along(mesh, "data") == 2
        assert islands_along(mesh, "model") == 1
    part = shardway.make_mesh((4,), ("x",), devices=shuffled)
    assert {d.slice_index for d in part.devices.flat} == {0}
    with pytest.raises(ValueError, match=r"\(4, 4\) needs 16 devices, there are 8"):
        shardway.make_mesh((4, 4), ("x", "y"))
    with pytest.raises(ValueError, match=r"2 sizes \(2, 4\) for 1 axes"):
        shardway.make_mesh((2, 4), ("x",))
