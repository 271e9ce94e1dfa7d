"""What our partitioner sends beside XLA's, program by program, and how fast it compiles.

Every program of partition_arithmetic.py, partition_movement.py, partition_order.py, partition_written.py and
partition_models.py is lowered once by JAX. `shardway-compile` partitions it; XLA's own partitioner does the same inside JAX's CPU backend, with Shardy and without, and
is read directly after its SPMD partitioning. The better of the two is what we are measured against.

    python bench/partitioner.py --json               all programs, as JSON
    python bench/partitioner.py --losses NAME…       a table of where we send more, with both sides' collectives
    python bench/partitioner.py --json --speed       compile speed alone

`bytes_ratio` is 1 where neither side sends anything. `memory_ratio` compares arguments, results and
temporaries of both per-device programs as XLA's CPU compiler lays them out. `equal` says that our program
gave what the unsharded one gives on one device.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import collective_bytes
import jax
import jaxlib
import numpy as np
import partition_speed
import spmd_oracle
from jaxlib import _jax
from partition_arithmetic import arithmetic
from partition_models import models
from partition_movement import movement_programs
from partition_order import ordered
from partition_program import Program, mesh_of, shardings
from partition_written import written_programs

# XLA's partitioned programs, which never change.
CACHE = Path(__file__).resolve().parent.parent / "build" / "partitioner_cache"


def every_program() -> dict[str, Program]:
    programs = [arithmetic(), movement_programs(), ordered(), written_programs(), models()]
    return {p.name: p for group in programs for p in group}


def lower(program: Program, *, shardy: bool) -> jax.stages.Lowered:
    mesh = mesh_of(program.axes)
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        function = jax.jit(
            program.fn(mesh),
            in_shardings=shardings(tuple(program.specs), mesh),
            out_shardings=shardings(program.out, mesh),
            keep_unused=True,
        )
        return function.lower(*program.args())
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)


# ---- XLA's side ----


@dataclasses.dataclass
class Xla:
    """XLA's per-device program: its HLO text after partitioning and what it needs of memory."""

    text: str
    memory: int


def memory_of(stats: Any) -> int:
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        + stats.temp_size_in_bytes
        - stats.alias_size_in_bytes
    )


def xla(program: Program, *, shardy: bool) -> Xla:
    lowered = lower(program, shardy=shardy)
    key = hashlib.sha256(f"{jaxlib.__version__}\n{lowered.as_text()}".encode()).hexdigest()[:24]
    kept = CACHE / f"{program.name}.{'shardy' if shardy else 'gspmd'}.{key}.json"
    if kept.exists():
        return Xla(**json.loads(kept.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        compiled = lowered.compile(
            compiler_options={
                "xla_dump_to": folder,
                "xla_dump_hlo_pass_re": ".*spmd-partitioning.*",
            }
        )
        dumps = [p for p in Path(folder).iterdir() if ".after_spmd-partitioning." in p.name]
        if len(dumps) != 1:
            raise RuntimeError(f"{len(dumps)} dumps after SPMD partitioning")
        text = dumps[0].read_text()
    found = Xla(text, memory_of(compiled.memory_analysis()))
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(dataclasses.asdict(found)))
    return found


# ---- ours ----


def as_hlo(text: str) -> str:
    computation = _jax.mlir.mlir_module_to_xla_computation(text, False, True)
    return str(computation.as_hlo_text(print_large_constants=True))


@dataclasses.dataclass
class Ours:
    """Our per-device program in the native form, with its boundary."""

    text: str
    comments: str

    @property
    def hlo(self) -> str:
        return as_hlo(self.text)


def ours(program: Program, *flags: str) -> Ours:
    devices = math.prod(program.axes.values())
    output = spmd_oracle.partition(lower(program, shardy=True), devices, "--native", *flags)
    text, _, comments = output.partition("// ----\n")
    return Ours(text, comments)


def run(program: Program, found: Ours) -> tuple[str, int]:
    """Runs our program on every device: what differs from the unsharded twin, and its memory."""
    n = math.prod(program.axes.values())
    lines = found.comments.split("\n")
    parameters = [spmd_oracle.Boundary(s, n) for s in lines if s.startswith("// parameter")]
    results = [spmd_oracle.Boundary(s, n) for s in lines if s.startswith("// result")]
    leaves = [np.asarray(a) for a in jax.tree.leaves(list(program.args()))]
    shards, stats = spmd_oracle.run_with_memory(
        found.text, [p.split(a) for p, a in zip(parameters, leaves, strict=True)], n
    )
    one = mesh_of(dict.fromkeys(program.axes, 1))
    twin = jax.jit(program.fn(one))(*program.args())
    for boundary, got, want in zip(results, shards, jax.tree.leaves(twin), strict=True):
        if trouble := difference(boundary.join(got), np.asarray(want), program.tolerance):
            return trouble, memory_of(stats)
    return "", memory_of(stats)


def difference(whole: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    if whole.dtype != want.dtype or whole.shape != want.shape:
        return f"{whole.dtype}{whole.shape} instead of {want.dtype}{want.shape}"
    if not np.issubdtype(want.dtype, np.integer) and want.dtype != np.bool_:
        a, b = whole.astype(np.complex128), want.astype(np.complex128)
        scale = max(1.0, float(np.max(np.abs(np.nan_to_num(b)), initial=0)))
        if np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return ""
        return f"differs by {np.nanmax(np.abs(a - b)):g}"
    return "" if np.array_equal(whole, want) else "integers differ"


# ---- one row ----


def ratio(a: float, b: float) -> float:
    if b == 0:
        return max(a, 1.0)  # beside nothing at all, as beside one byte
    return a / b


def row(name: str, execute: bool) -> dict[str, Any]:
    """Everything about one program; a failure is in `error`."""
    program = every_program()[name]
    devices = math.prod(program.axes.values())
    result: dict[str, Any] = {"name": name, "bound_bytes": program.bound}
    try:
        theirs = {}
        for key, shardy in (("shardy", True), ("gspmd", False)):
            side = xla(program, shardy=shardy)
            theirs[key] = (collective_bytes.count(side.text, devices), side.memory)
        best = min(theirs, key=lambda k: (theirs[k][0].bytes, theirs[k][0].number))
        result |= {
            "xla_bytes": theirs[best][0].bytes,
            "xla_collectives": theirs[best][0].number,
            "xla_shardy_bytes": theirs["shardy"][0].bytes,
            "xla_gspmd_bytes": theirs["gspmd"][0].bytes,
            "xla_detail": [str(c) for c in theirs[best][0].collectives],
        }
        found = ours(program)
        count = collective_bytes.count(found.hlo, devices)
        result |= {
            "bytes": count.bytes,
            "collectives": count.number,
            "bytes_ratio": ratio(count.bytes, theirs[best][0].bytes),
            "detail": [str(c) for c in count.collectives],
        }
        if execute:
            trouble, memory = run(program, found)
            result |= {
                "equal": not trouble,
                "trouble": trouble,
                "memory": memory,
                "memory_ratio": ratio(memory, theirs[best][1]),
            }
    except Exception as error:
        result["error"] = "".join(traceback.format_exception_only(error)).strip()[-500:]
        if os.environ.get("SHARDWAY_BENCH_TRACE"):
            traceback.print_exc()
    return result


# ---- all of them ----


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    good = [r for r in rows if "error" not in r]
    room = [
        r["bytes_ratio"]
        for r in good
        if r["xla_bytes"] > 1.05 * r["bound_bytes"] and r["xla_bytes"] > 0
    ]
    floor = 1e-3  # where we send nothing at all
    mean = math.exp(sum(math.log(max(x, floor)) for x in room) / len(room)) if room else 1.0
    few = [r for r in good if r["collectives"] <= r["xla_collectives"]]
    return {
        "programs_failed": len(rows) - len(good),
        "bytes_losses": sum(r["bytes_ratio"] > 1 + 1e-9 for r in good),
        "bytes_geomean_where_xla_above_bound": mean,
        "programs_above_bound": len(room),
        "collectives_not_more_share": len(few) / max(1, len(good)),
        "memory_losses": sum(r.get("memory_ratio", 0) > 1.05 for r in good),
        "unequal": sum(not r.get("equal", True) for r in good),
    }


def print_losses(rows: Sequence[dict[str, Any]]) -> None:
    for r in sorted(rows, key=lambda r: -r.get("bytes_ratio", math.inf)):
        if "error" in r:
            print(f"== {r['name']}: ERROR {r['error']}")
            continue
        notes = [] if r.get("equal", True) else [f"WRONG: {r['trouble']}"]
        if r.get("memory_ratio", 0) > 1.05:
            notes.append(f"memory {r['memory_ratio']:.2f}")
        worse = r["bytes_ratio"] > 1 + 1e-9
        more = r["collectives"] > r["xla_collectives"]
        if not (worse or more or notes):
            continue
        print(
            f"== {r['name']}: ratio {r['bytes_ratio']:.3f}, {r['bytes']:.0f} B beside {r['xla_bytes']:.0f} "
            f"(bound {r['bound_bytes']:.0f}), collectives {r['collectives']:g} beside {r['xla_collectives']:g} "
            + " ".join(notes)
        )
        for side in ("detail", "xla_detail"):
            print(f"  {'ours' if side == 'detail' else 'XLA '}:")
            for line in r[side]:
                print(f"    {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs; a trailing * matches the rest")
    parser.add_argument("--every", type=int, default=1, help="of the programs only each N-th")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--losses", action="store_true", help="print where we lose, worst first")
    parser.add_argument("--speed", action="store_true", help="compile speed only")
    parser.add_argument("--no-run", action="store_true", help="count only: no results, no memory")
    parser.add_argument("--no-speed", action="store_true", help="no compile speed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        patterns = [n.replace("*", ".*") for n in options.names] or [".*"]
        return any(re.fullmatch(p, name) for p in patterns)

    names = [] if options.speed else [n for n in every_program() if wanted(n)]
    names = names[:: options.every]
    rows: list[dict[str, Any]] = []
    if names:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            rows = list(pool.map(row, names, [not options.no_run] * len(names)))
    outcome: dict[str, Any] = {"programs": rows, "summary": summary(rows)}
    if not options.no_speed:
        outcome |= partition_speed.measure()
    if options.losses:
        print_losses(rows)
        print(json.dumps({k: v for k, v in outcome.items() if k != "programs"}, indent=1))
    elif options.json:
        print(json.dumps(outcome))
    else:
        for r in rows:
            print(f"{r['name']:24} {r.get('bytes_ratio', math.nan):8.3f} {r.get('error', '')}")
        print(json.dumps({k: v for k, v in outcome.items() if k != "programs"}, indent=1))


if __name__ == "__main__":
    main()
