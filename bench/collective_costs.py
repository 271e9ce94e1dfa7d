"""What a collective costs on this machine: latency and bandwidth, inside a host, across hosts, across islands.

    python bench/collective_costs.py [--rounds N]

prints one JSON object: for each shape of cluster and each collective the microseconds of one over a single
element, the bytes per second that a device sends in a large one, and `price`: how many bytes it could have sent in
the time of the small one, which is what `kCollectivePrice` of shardway/spmd/costs.h stands for. Collectives
run one after the other inside one program, so that no call from Python is in the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {
    "one_host": (1, 1, 8),
    "hosts": (1, 2, 4),
    "islands": (2, 1, 4),
}  # islands, hosts, devices
DEVICES = 8
LARGE = 1 << 18  # elements of a device: 1 MiB
REPEATS = 5


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """On the cluster that this process was started on."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
    shares = (DEVICES - 1) / DEVICES
    # A step from a shard to the next of the same size, and the bytes that it sends for each of the shard's.
    steps: dict[str, tuple[Callable[[jax.Array], jax.Array], float]] = {
        "all_reduce": (lambda v: lax.psum(v, "x") * (1 / DEVICES), 2 * shares),
        "all_gather": (
            lambda v: lax.all_gather(v, "x")[(lax.axis_index("x") + 1) % DEVICES],
            DEVICES - 1,
        ),
        "all_to_all": (lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), shares),
        "permute": (lambda v: lax.ppermute(v, "x", ring), 1),
    }

    def seconds(step: Callable[[jax.Array], jax.Array], elements: int, count: int) -> float:
        def many(v: jax.Array) -> jax.Array:
            return lax.fori_loop(0, count, lambda _, u: step(u), v)

        split = jax.shard_map(many, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        run = jax.jit(split)
        where = NamedSharding(mesh, P("x"))
        shards = jax.device_put(jnp.ones((DEVICES * elements,), jnp.float32), where)
        jax.block_until_ready(run(shards))
        best = float("inf")
        for _ in range(REPEATS):
            begin = time.perf_counter()
            jax.block_until_ready(run(shards))
            best = min(best, time.perf_counter() - begin)
        return best / count

    found = {}
    for name, (step, sent) in steps.items():
        small = seconds(step, DEVICES, rounds)
        large = seconds(step, LARGE, max(1, rounds // 50))
        per_second = 4 * LARGE * sent / (large - small)
        found[name] = {
            "latency_us": small * 1e6,
            "bytes_per_s": per_second,
            "price": small * per_second,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.rounds)))
        return
    found = {}
    for name, (islands, hosts, devices) in SHAPES.items():
        command = [str(Path(sys.executable).parent / "shardway"), "run"]
        command += ["--islands", str(islands), "--hosts", str(hosts), "--devices", str(devices)]
        command += [__file__, "--here", "--rounds", str(options.rounds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
        if done.returncode != 0:
            raise SystemExit(f"{name}: {done.stderr[-1500:]}")
        found[name] = json.loads(done.stdout.strip().split("\n")[-1])
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
