"""Runs what the partitioner makes of a JAX program, without Shardway's runtime: an oracle for its numbers.

The program is lowered by JAX for 8 devices and partitioned by `shardway-compile --native`; the per-device
program runs on JAX's CPU backend with 8 forced devices (as 8 replicas, since XLA must not partition it
again), every device with its own shards; the shards of the results, put together as the described
shardings say, are compared with the unsharded program on one device. Convolutions are taken from their
definition there, since XLA's are not always right.

    python spmd_oracle.py [NAME…]      programs by name; prints one JSON object of name → error or ""

SPMD_FLAGS are more flags for the tool (`--windowed-einsum always`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from convolution_reference import by_definition
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax

STABLEHLO_VERSION = "1.17.0"
NATIVE_ONLY = re.compile("all_to_all|collective_permute|collective_broadcast")


def compiler() -> str:
    """The tool, from the environment or the newest build."""
    if tool := os.environ.get("SHARDWAY_COMPILE"):
        return tool
    root = Path(__file__).resolve().parent.parent
    found = sorted(
        root.glob("build*/shardway/compile/shardway-compile"), key=lambda p: p.stat().st_mtime
    )
    if not found:
        raise SystemExit(
            "no shardway-compile under build*/: build it first or set SHARDWAY_COMPILE"
        )
    return str(found[-1])


def artifact(lowered: jax.stages.Lowered) -> bytes:
    """The bytes a PJRT plugin would be handed."""
    text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)
    with jax_mlir.make_ir_context():
        return _jax.mlir.serialize_portable_artifact(ir.Module.parse(text), STABLEHLO_VERSION, True)


def partition(lowered: jax.stages.Lowered, partitions: int, *flags: str) -> str:
    """The tool's output: the per-device program, then the boundary in comments."""
    with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
        file.write(artifact(lowered))
        file.flush()
        more = os.environ.get("SPMD_FLAGS", "").split()
        command = [compiler(), file.name, "--partitions", str(partitions), *flags, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit {done.returncode}")
    return done.stdout


class Boundary:
    """One argument or result, as the compiler describes it."""

    def __init__(self, line: str, partitions: int):
        match = re.match(r"\S+ \S+ \d+: \S+?\[([\d,]*)\] shard \[([\d,]*)\] sharding (\w*)", line)
        assert match, line
        self.dims = tuple(int(d) for d in match[1].split(",") if d)
        self.shard = tuple(int(d) for d in match[2].split(",") if d)
        proto = xla_client.OpSharding()
        proto.ParseFromString(bytes.fromhex(match[3]))
        devices = jax.devices()[:partitions]
        sharding = GSPMDSharding(devices, xla_client.HloSharding.from_proto(proto))
        self.indices = [sharding.devices_indices_map(self.dims)[d] for d in devices]
        assert sharding.shard_shape(self.dims) == self.shard, (self.dims, self.shard, sharding)

    def split(self, whole: np.ndarray) -> list[np.ndarray]:
        return [whole[index] for index in self.indices]

    def join(self, shards: Sequence[np.ndarray]) -> np.ndarray:
        whole = np.zeros(self.dims, shards[0].dtype)
        for index, shard in zip(self.indices, shards, strict=True):
            whole[index] = shard
        for index, shard in zip(self.indices, shards, strict=True):
            np.testing.assert_array_equal(whole[index], shard, "replicas differ")
        return whole


def as_replicas(text: str, n: int) -> str:
    """The same program for n replicas of one partition."""
    text = text.replace("stablehlo.partition_id", "stablehlo.replica_id")
    text = re.sub(r"mhlo.num_partitions = \d+", "mhlo.num_partitions = 1", text)
    text = re.sub(r"mhlo.num_replicas = \d+", f"mhlo.num_replicas = {n}", text)
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if NATIVE_ONLY.search(line):
            lines[i] = re.sub(r"channel_handle = #stablehlo.channel_handle<[^>]*>, ", "", line)
    return "\n".join(lines)


def run(text: str, arguments: Sequence[Sequence[np.ndarray]], n: int) -> list[list[np.ndarray]]:
    """Shards of the arguments in (argument, device), shards of the results out."""
    return run_with_memory(text, arguments, n)[0]


def run_with_memory(
    text: str, arguments: Sequence[Sequence[np.ndarray]], n: int
) -> tuple[list[list[np.ndarray]], Any]:
    """The same, and what XLA's CPU compiler says of the program's memory."""
    devices = jax.devices()[:n]
    options = xla_client.CompileOptions()
    options.num_replicas = n
    options.num_partitions = 1
    build = options.executable_build_options
    build.num_replicas = n
    build.num_partitions = 1
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(n, 1))
    client = devices[0].client
    executable = client.compile_and_load(
        as_replicas(text, n), xla_client.DeviceList(tuple(devices)), options
    )
    mesh = Mesh(np.array(devices), ("d",))
    arrays = []
    for shards in arguments:
        buffers = [jax.device_put(np.asarray(s), d) for s, d in zip(shards, devices, strict=True)]
        shape = shards[0].shape
        spec = P("d") if shape else P()
        whole = (shape[0] * n, *shape[1:]) if shape else ()
        arrays.append(
            jax.make_array_from_single_device_arrays(whole, NamedSharding(mesh, spec), buffers)
        )
    results = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    values = [[np.asarray(x) for x in shards] for shards in results]
    return values, executable.get_compiled_memory_stats()


def twin(
    fn: Callable[..., Any],
    args: Sequence[Any],
    specs: Sequence[P] | None = None,
    out: Any = None,
    mesh: Mesh | None = None,
    tolerance: float = 1e-5,
    reference: Callable[..., Any] | None = None,
) -> str:
    """Asserts that `fn` partitioned over `mesh` equals `reference` (fn itself) on one device; returns the text."""
    mesh = mesh or Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    n = mesh.devices.size
    leaves, tree = jax.tree.flatten(tuple(args))
    flat_specs = list(specs) if specs is not None else [P()] * len(leaves)
    in_shardings = jax.tree.unflatten(tree, [NamedSharding(mesh, s) for s in flat_specs])
    kwargs: dict[str, Any] = {}
    if out is not None:
        kwargs["out_shardings"] = jax.tree.map(
            lambda s: NamedSharding(mesh, s), out, is_leaf=lambda s: isinstance(s, P)
        )
    lowered = jax.jit(fn, in_shardings=in_shardings, keep_unused=True, **kwargs).lower(*args)
    output = partition(
        lowered,
        n,
        "--native",
        "--poison-padding",
        *(() if out is not None else ("--propagate-results",)),
    )
    text, _, comments = output.partition("// ----\n")
    lines = comments.split("\n")
    parameters = [Boundary(line, n) for line in lines if line.startswith("// parameter")]
    results = [Boundary(line, n) for line in lines if line.startswith("// result")]
    shards = run(text, [p.split(np.asarray(a)) for p, a in zip(parameters, leaves, strict=True)], n)
    with by_definition():
        expected = jax.tree.leaves(jax.jit(reference or fn)(*args))
    assert len(expected) == len(results)
    for i, (boundary, got, want) in enumerate(zip(results, shards, expected, strict=True)):
        whole, want = boundary.join(got), np.asarray(want)
        assert whole.shape == want.shape and whole.dtype == want.dtype, (whole.shape, want.shape)
        if np.issubdtype(want.dtype, np.floating) or np.issubdtype(want.dtype, np.complexfloating):
            scale = max(1.0, float(np.max(np.abs(np.nan_to_num(want)), initial=0)))
            np.testing.assert_allclose(
                whole, want, rtol=tolerance, atol=tolerance * scale, err_msg=f"result {i}"
            )
        else:
            np.testing.assert_array_equal(whole, want, f"result {i}")
    return output


def main() -> None:
    from spmd_programs import cases

    chosen = set(sys.argv[1:])
    batch, batches = (int(n) for n in os.environ.get("SPMD_BATCH", "0/1").split("/"))
    outcome = {}
    for i, (name, case) in enumerate(cases().items()):
        if i % batches != batch or (chosen and name not in chosen):
            continue
        try:
            case()
            outcome[name] = ""
        except Exception as error:
            outcome[name] = "".join(traceback.format_exception_only(error))[-3000:]
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
