"""The examples of examples/patterns: split over 8 devices of two islands, against one device."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import shardway

PATTERNS = Path(__file__).resolve().parent.parent / "examples" / "patterns"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pattern_{name}", PATTERNS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = sorted(path.stem for path in PATTERNS.glob("*.py"))


def test_every_pattern_is_in_the_table() -> None:
    assert NAMES
    table = (PATTERNS / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}.py`" not in table] == []


@pytest.mark.parametrize("name", NAMES)
def test_pattern_equals_one_device(name: str) -> None:
    pattern = load(name)
    got = pattern.run(jax.devices()[:8])
    want = pattern.run(jax.devices("cpu")[:1])
    assert got.keys() == want.keys()
    for key, expected in want.items():
        np.testing.assert_allclose(got[key], expected, rtol=2e-4, atol=2e-5, err_msg=key)
        assert np.isfinite(expected).all()


def kinds(why: shardway.Explanation) -> set[str]:
    return {c.kind for c in why.collectives}


def test_data_parallelism_sums_gradients_once() -> None:
    pattern = load("data_parallel")
    why = shardway.explain(pattern.step, *pattern.inputs(jax.devices()[:8]))
    assert kinds(why) == {"all_reduce"}
    weights = 4 * (32 * 64 + 64 + 64 * 8)
    assert why.bytes <= 2 * 7 / 8 * (weights + 64)


def test_megatron_sums_twice_each_way() -> None:
    pattern = load("tensor_parallel")
    params, x, y = pattern.inputs(jax.devices()[:8])
    why = shardway.explain(jax.jit(pattern.block), params, x)
    assert [c.kind for c in why.collectives] == ["all_reduce", "all_reduce"]
    assert {c.axes for c in why.collectives} == {"model"}
    step = shardway.explain(pattern.step, params, x, y)
    assert kinds(step) == {"all_reduce"}


def test_experts_get_their_tokens_by_all_to_all() -> None:
    pattern = load("expert_parallel")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]), ("expert",))
    params, x, y = pattern.inputs(mesh)
    why = shardway.explain(lambda p, x: pattern.mixture(p, x, mesh), params, x)
    assert [c.kind for c in why.collectives] == ["all_to_all", "all_to_all"]
    assert kinds(shardway.explain(pattern.make_step(mesh), params, x, y)) == {
        "all_to_all",
        "all_reduce",
    }


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_shift_is_a_permute(repeats: int) -> None:
    pattern = load("pipelined")
    mesh = pattern.make_mesh(jax.devices()[:8])
    weights, x, _ = pattern.inputs(mesh)

    def forward(w: Any, x: Any) -> Any:
        return shardway.pipeline(pattern.layer, w, x, mesh=mesh, axis="stage", repeats=repeats)

    why = shardway.explain(forward, weights, x)
    loop = [c for c in why.collectives if c.times is None or c.times > 1]
    assert {c.kind for c in loop} == {"collective_permute"}
    np.testing.assert_allclose(jax.jit(forward)(weights, x), sequential(weights, x), atol=1e-5)


def sequential(weights: Any, x: Any) -> np.ndarray:
    out = np.asarray(x)
    for w in np.asarray(weights):
        out = out + np.tanh(out @ w)
    return out


@pytest.mark.parametrize(
    ("layers", "repeats", "microbatches"), [(4, 1, 3), (8, 2, 5), (12, 3, 4), (4, 1, 1)]
)
def test_pipelines_of_any_size(layers: int, repeats: int, microbatches: int) -> None:
    pattern = load("pipelined")
    mesh = pattern.make_mesh(jax.devices()[:8])
    rng = np.random.default_rng(layers)
    weights = rng.standard_normal((layers, 6, 6)).astype(np.float32) * 0.3
    x = rng.standard_normal((microbatches, 2, 6)).astype(np.float32)
    out = jax.jit(
        lambda w, x: shardway.pipeline(
            pattern.layer, w, x, mesh=mesh, axis="stage", repeats=repeats
        )
    )(weights, x)
    np.testing.assert_allclose(out, sequential(weights, x), atol=1e-5)


def test_pipelines_that_do_not_fit_are_errors() -> None:
    pattern = load("pipelined")
    mesh = pattern.make_mesh(jax.devices()[:8])
    weights, x = np.zeros((6, 4, 4), np.float32), np.zeros((2, 2, 4), np.float32)
    with pytest.raises(ValueError, match="6 stages do not divide"):
        shardway.pipeline(pattern.layer, weights, x, mesh=mesh, axis="stage")
    with pytest.raises(ValueError, match="6 layers are not 4 rounds"):
        shardway.pipeline(pattern.layer, weights, x, mesh=mesh, axis="stage", repeats=4)
    with pytest.raises(ValueError, match="no axis 'depth'"):
        shardway.pipeline(pattern.layer, weights, x, mesh=mesh, axis="depth")


def test_mesh_split_annotates_inside_and_moves_outside() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    moved: Any = shardway.mesh_split(x, mesh, ["x", "y"])
    assert moved.sharding.shard_shape((8, 8)) == (4, 2)
    for dims in (["y", None], [1, -1], [("y",), ()]):
        fn = jax.jit(lambda a, dims=dims: shardway.mesh_split(a + 1, mesh, dims))
        out = fn(moved)
        assert out.sharding.shard_shape((8, 8)) == (2, 8)
        np.testing.assert_array_equal(out, x + 1)


def test_mesh_split_splits_further_inside_a_shard_map() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    x = np.arange(64, dtype=np.float32).reshape(8, 8)

    def body(a: jax.Array) -> jax.Array:
        assert a.shape == (4, 8)
        return shardway.mesh_split(a, mesh, [None, "y"]) * 2

    spec = jax.sharding.PartitionSpec("x")
    around = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={"x"})
    np.testing.assert_array_equal(jax.jit(around)(x), x * 2)


def test_mesh_split_pads_inside_a_jit_alone() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    x = np.arange(63, dtype=np.float32).reshape(9, 7)
    split = jax.jit(lambda a: shardway.mesh_split(a * 2, mesh, ["x", "y"]).sum(0))
    np.testing.assert_array_equal(split(x), (x * 2).sum(0))
    with pytest.raises(ValueError, match="evenly divide"):
        shardway.mesh_split(x, mesh, ["x", "y"])
    with pytest.raises(ValueError, match="None is no mesh"):
        shardway.mesh_split(x, None, ["x", "y"])


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (["x"], "1 entries"),
        (["z", None], "no axis 'z'"),
        (["x", "x"], "'x' is used twice"),
        ([("x", "y"), "y"], "'y' is used twice"),
        ([2, None], "no axis number 2"),
    ],
)
def test_mesh_split_errors_name_shape_and_axis(dims: Any, message: str) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    with pytest.raises(ValueError, match=message) as caught:
        shardway.mesh_split(np.zeros((8, 8)), mesh, dims)
    assert "(8, 8)" in str(caught.value)
