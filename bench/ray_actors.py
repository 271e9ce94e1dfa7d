"""The Ray peer: one actor for each device, driven by one Python process.

As in the paper's comparison, an actor's method runs one call of the program (multi-controller JAX, Gloo
between the actors) and leaves its result in Ray's object store; the driver issues calls without waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import processes
import ray
from programs import BATCH_S, CHAIN

BENCH = Path(__file__).resolve().parent
IN_FLIGHT = 256  # calls of each actor; without a bound the driver only fills Ray's queues


class Member:
    """A process of a multi-controller JAX run."""

    def __init__(self, coordinator: str, count: int, index: int):
        import sys

        sys.path.insert(0, str(BENCH))
        import jax

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(coordinator, count, index)
        from programs import Bench

        self.bench = Bench()
        self.calls: dict[str, Any] = {}
        self.x = self.bench.x

    def prepare(self, mode: str) -> None:
        from programs import check

        call, computations = self.bench.program(mode)
        check(self.bench, call, computations)
        self.calls[mode] = call

    def run(self, mode: str) -> float:
        self.x = self.calls[mode](self.x)
        return float(self.x.addressable_shards[0].data[0])


def run_calls(members: list[Any], mode: str, calls: int) -> float:
    begun = time.perf_counter()
    running: list[list[Any]] = []
    for _ in range(calls):
        running.append([m.run.remote(mode) for m in members])
        if len(running) > IN_FLIGHT:
            ray.get(running.pop(0))
    ray.get(running[-1])
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, required=True)
    parser.add_argument("--modes", required=True, help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        processes.adopt_orphans()
        try:
            ray.init(
                num_cpus=args.actors,
                include_dashboard=False,
                object_store_memory=100 << 20,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
            )
            coordinator = f"127.0.0.1:{processes.free_port()}"
            actor: Any = ray.remote(num_cpus=1)(Member)
            members = [actor.remote(coordinator, args.actors, i) for i in range(args.actors)]
            for mode in args.modes.split(","):
                ray.get([m.prepare.remote(mode) for m in members])
                calls = 1
                while run_calls(members, mode, calls) < BATCH_S:
                    calls *= 2
                best = min(run_calls(members, mode, calls) for _ in range(args.repeats))
                computations = 1 if mode == "opbyop" else CHAIN
                print(json.dumps({mode: calls * computations / best}), flush=True)
        finally:
            ray.shutdown()
            processes.end_descendants()


if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    main()
