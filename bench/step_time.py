"""How long whole training steps take on 8 devices: Shardway beside multi-controller JAX over Gloo.

Every training step of partition_models.py runs as users would run it: parameters and batch are placed by
their shardings, and each step takes the parameters that the last one gave.

    python bench/step_time.py [NAME…] [--json]      milliseconds per step, best of several batches
    python bench/step_time.py --member NAME…        one process of it; whoever starts it chose the backend

Only the same machine, the same run and one after the other make the two comparable: both sides' devices
share its cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

DEVICES = 8
BATCH_S = 0.5  # a measured batch of steps takes at least this long

Tree = Any
Step = Callable[..., Any]


def names_of(prefixes: list[str]) -> list[str]:
    from partition_models import models

    names = [p.name for p in models()]
    return [n for n in names if not prefixes or any(n.startswith(p) for p in prefixes)]


# ---- one process of one side ----


def seconds(step: Step, params: Tree, batch: list[Any], steps: int) -> float:
    import jax

    begun = time.perf_counter()
    loss: Any = None
    for _ in range(steps):
        params, loss = step(params, *batch)
    jax.block_until_ready((params, loss))
    return time.perf_counter() - begun


def member(names: list[str], repeats: int, gloo: tuple[str, int] | None) -> None:
    """Prints a line {name: milliseconds per step} for each program; of several processes the first does."""
    import jax

    if gloo:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(gloo[0], DEVICES, gloo[1])

    import numpy as np
    from jax.sharding import NamedSharding
    from partition_models import models
    from partition_program import mesh_of, shardings
    from programs import Bench

    agree = Bench().agree
    programs = {p.name: p for p in models()}
    for name in names:
        program = programs[name]
        mesh = mesh_of(program.axes)

        def place(value: Any, sharding: NamedSharding) -> jax.Array:
            whole = np.asarray(value)
            return jax.make_array_from_callback(whole.shape, sharding, lambda i: whole[i])

        places = shardings(tuple(program.specs), mesh)
        arguments = jax.tree.map(place, tuple(program.args()), places)
        step = jax.jit(
            program.fn(mesh), in_shardings=places, out_shardings=shardings(program.out, mesh)
        )
        params, batch = arguments[0], list(arguments[1:])
        agree(seconds(step, params, batch, 1))
        steps = 1
        while agree(seconds(step, params, batch, steps)) < BATCH_S:
            steps *= 2
        best = min(agree(seconds(step, params, batch, steps)) for _ in range(repeats))
        if not gloo or gloo[1] == 0:
            print(json.dumps({name: 1e3 * best / steps}), flush=True)


# ---- both sides ----


def compare(names: list[str], repeats: int, deadline_s: float) -> list[dict[str, Any]]:
    """A row for each program: {"name", "shardway_ms", "jax_gloo_ms", "ratio"}; what could not be measured
    is null and `trouble` says why."""
    import peers

    rows = []
    for name in names:
        command = [str(Path(__file__).resolve()), "--member", "--repeats", str(repeats), name]
        ours = peers.run_shardway(1, DEVICES, command, deadline_s)
        theirs = peers.run_gloo(DEVICES, command, deadline_s)
        mine, other = ours.rates.get(name), theirs.rates.get(name)
        row = {"name": name, "shardway_ms": mine, "jax_gloo_ms": other}
        row["ratio"] = mine / other if mine and other else None
        if trouble := ours.reason or theirs.reason:
            row["trouble"] = trouble
        print(f"{name:24} {mine or 0:10.2f} ms {other or 0:10.2f} ms", file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs whose name begins so; none: all")
    parser.add_argument("--json", action="store_true", help="print the rows as one line of JSON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=120, help="seconds for a side")
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--collectives", choices=["gloo"], help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.member:
        gloo = (args.coordinator, args.index) if args.collectives else None
        member(args.names, args.repeats, gloo)
        return

    import processes

    processes.adopt_orphans()
    rows = compare(names_of(args.names), args.repeats, args.deadline)
    if args.json:
        print(json.dumps({"steps": rows}))
    slower = [r["name"] for r in rows if r["ratio"] is None or r["ratio"] > 1]
    print(f"{len(rows) - len(slower)} of {len(rows)} not slower", *slower, file=sys.stderr)


if __name__ == "__main__":
    main()
