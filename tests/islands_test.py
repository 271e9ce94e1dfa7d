"""Several islands: meshes follow the topology, and the compiler keeps traffic inside islands."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from own_process import outcome_of

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


# From rows over y to rows over x: by a permute between all devices and a gather, or, when x crosses
# islands and y does not, by a gather inside each island and a slice; when half of y crosses by a gather
# of single shards across, then inside.
EXPLAINED = """
import json, os
import jax, numpy as np, shardway
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
ids = np.arange(8)
order = ids.reshape(2, 4) if os.environ["ORDER"] == "x-across" else ids.reshape(4, 2).T
mesh = Mesh(np.array(jax.devices()[:8])[order], ("x", "y"))
wanted = NamedSharding(mesh, P("x"))
f = jax.jit(lambda a: a, in_shardings=NamedSharding(mesh, P("y")), out_shardings=wanted)
found = shardway.explain(f, jax.ShapeDtypeStruct((512, 512), np.float32))
print(json.dumps([c.kind for c in found.collectives]))
"""


@pytest.mark.parametrize(
    ("order", "kinds"),
    [("x-across", ["all_gather"]), ("y-across", ["all_gather", "all_gather"])],
)
def test_explain_prefers_what_stays_inside_islands(
    script: Callable[..., Any], order: str, kinds: list[str]
) -> None:
    """By the prices of its cluster: links of one machine would be measured to be alike."""
    found = script(
        EXPLAINED, islands=2, devices=4, ORDER=order, SHARDWAY_LINKS="islands=4:4"
    ).wait()
    assert json.loads(found) == kinds


SUMS = """
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
for size in (64, 33):
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-9, 9, s).astype(np.float32) for s in ((size, 64), (64, size)))
    split = NamedSharding(mesh, P(None, ("x", "y"))), NamedSharding(mesh, P(("x", "y")))
    f = jax.jit(jnp.matmul, in_shardings=split, out_shardings=NamedSharding(mesh, P()))
    np.testing.assert_array_equal(f(a, b), a @ b)

    # The user's own, of several values at once.
    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=P(("x", "y")), out_specs=P())
    def combined(b):
        both = ("x", "y")
        return *lax.psum((b, 2 * b[:, 1:]), both), lax.pmax(b.T, both)

    # Gathers and scattered sums, along either dimension, of axes in either order.
    for axes in (("x", "y"), ("y", "x")):
        for dim in (0, 1):
            spec = P(axes) if dim == 0 else P(None, axes)
            whole = rng.integers(-9, 9, (16, 24)).astype(np.float32)
            gathered = jax.jit(
                jax.shard_map(
                    lambda v: lax.all_gather(v, axes, axis=dim, tiled=True),
                    mesh=mesh, in_specs=spec, out_specs=P(), check_vma=False,
                )
            )
            np.testing.assert_array_equal(gathered(whole), whole)
            scattered = jax.jit(
                jax.shard_map(
                    lambda v: lax.psum_scatter(
                        v * (1 + lax.axis_index(axes)), axes, scatter_dimension=dim, tiled=True
                    ),
                    mesh=mesh, in_specs=P(), out_specs=spec, check_vma=False,
                )
            )
            np.testing.assert_array_equal(scattered(whole), 36 * whole)

    parts = b.reshape(8, 8, size)
    total, double, most = combined(b)
    np.testing.assert_array_equal(total, parts.sum(0))
    np.testing.assert_array_equal(double, 2 * parts.sum(0)[:, 1:])
    np.testing.assert_array_equal(most, parts.max(0).T)
"""


@pytest.mark.parametrize("when", ["auto", "always"])
def test_sums_over_all_devices_cross_islands(
    script: Callable[..., Any], tmp_path: Path, when: str
) -> None:
    """In parts where that is asked for; hosts that share a machine's memory are measured to be near."""
    settings = {
        "SHARDWAY_DUMP": str(tmp_path),
        "SHARDWAY_ISLAND_STEPS": when,
        "SHARDWAY_LINKS": "measured",
    }
    script(SUMS, islands=2, devices=4, **settings).wait()
    texts = [p.read_text() for p in tmp_path.rglob("*4-partitioned*")]
    for name in ("matmul", "combined"):
        kinds = [text for text in texts if name in text.splitlines()[0]]
        assert kinds, [text.splitlines()[0] for text in texts]
        assert all(("reduce-scatter" in text) == (when == "always") for text in kinds)


def test_the_native_form_crosses_islands_in_parts() -> None:
    outcome = outcome_of("spmd_oracle.py", "sums_over_all", deadline_s=120, SPMD_FLAGS="--island 4")
    assert outcome == {"sums_over_all": ""}


LINKS = """
import jax
print(jax.devices()[-1].link_prices)
"""


def test_links_are_measured_when_a_cluster_starts(script: Callable[..., Any]) -> None:
    """On one machine all are alike, on a loaded one nearly: what is twice as slow is as cheap."""
    settings = {"islands": 2, "hosts": 2, "devices": 2}
    found = script(LINKS, **settings, SHARDWAY_LINKS="measured").wait().strip()
    assert found != script(LINKS, **settings, SHARDWAY_LINKS="hosts=2:2,islands=8:8").wait().strip()
    hosts, islands = (part.partition("=")[2].split(":") for part in found.split(","))
    assert all(float(near) < float(far) for near, far in zip(hosts, islands, strict=True)), found


def test_links_that_are_no_prices_are_refused(script: Callable[..., Any]) -> None:
    process = script(LINKS, SHARDWAY_LINKS="cheap").process
    assert "hosts=C:B,islands=C:B" in process.communicate(timeout=120)[1]
    assert process.returncode != 0


CLUSTER = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
a = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)
f = jax.jit(lambda a: a * 2, out_shardings=NamedSharding(mesh, P("x")))
out = f(jax.device_put(a, NamedSharding(mesh, P("y"))))
np.testing.assert_array_equal(np.asarray(out), a * 2)
"""


@pytest.mark.parametrize(("islands", "permutes"), [(1, True), (2, False)])
def test_the_controller_compiles_for_its_islands(
    script: Callable[..., Any], tmp_path: Path, islands: int, permutes: bool
) -> None:
    settings = {"SHARDWAY_DUMP": str(tmp_path), "SHARDWAY_LINKS": "islands=4:4"}
    script(CLUSTER, islands=islands, devices=8 // islands, **settings).wait()
    texts = [p.read_text() for p in tmp_path.rglob("*4-partitioned*") if "lambda" in p.name]
    assert texts, sorted(p.name for p in tmp_path.rglob("*"))
    assert any("all-gather" in text for text in texts)
    assert any("collective-permute" in text for text in texts) == permutes
