"""Shardway: a cluster as one machine to one JAX process.

Nothing here needs to be imported to run: with the package installed, `JAX_PLATFORMS=shardway` runs any
JAX program on a cluster. SHARDWAY_ADDRESS names a running one; without it a private one starts, of the
shape that SHARDWAY_ISLANDS, SHARDWAY_HOSTS and SHARDWAY_DEVICES say (1 x 1 x 8).

    shardway.explain(f, *args)             how a jitted function is partitioned, and why
    shardway.make_mesh(shape, names)       a mesh whose last axes lie closest together
    shardway.mesh_split(x, mesh, dims)     an annotation, as in the GSPMD paper
    shardway.pipeline(stage_fn, …)         pipeline parallelism as tensor sharding
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardway.explanation import Explanation, explain
    from shardway.meshes import make_mesh
    from shardway.pipelining import pipeline
    from shardway.sharding import mesh_split

__version__ = "0.1.0"
__all__ = ["Explanation", "explain", "make_mesh", "mesh_split", "pipeline"]

# Where each name is; loaded when it is first used, since JAX imports this package on its way up.
_HOMES = {
    "Explanation": "shardway.explanation",
    "explain": "shardway.explanation",
    "make_mesh": "shardway.meshes",
    "mesh_split": "shardway.sharding",
    "pipeline": "shardway.pipelining",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
