"""A step with real work: on every device a serial computation of 10 ms after an AllReduce.

Devices that share a machine must do such work at the same time: two devices should take hardly longer
than one. `compare` runs this file under `shardway run` with one and with two devices.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers import Options

TARGET_S = 0.010
STEPS = 20
LIMIT = 1.15  # two devices' time over one's, at most


def step_seconds(rounds: int, repeats: int) -> float:
    """Seconds a step takes on all devices: the best of `repeats` chains."""
    import jax
    from jax.sharding import PartitionSpec as P
    from programs import Bench, run_calls, serial_work

    bench = Bench()
    work = serial_work(rounds)

    def step(v: jax.Array) -> jax.Array:
        mean = jax.lax.psum(v, "x") * (1.0 / bench.count)
        return work(mean[0])[None]

    call = jax.jit(
        jax.shard_map(step, mesh=bench.mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    )
    run_calls(call, bench.x, 1, 0)
    return min(run_calls(call, bench.x, STEPS, 0) for _ in range(repeats)) / STEPS


def calibrate() -> int:
    """Rounds of serial work that take TARGET_S on one device here."""
    rounds = 1000
    for _ in range(6):
        rounds = max(1, round(rounds * TARGET_S / step_seconds(rounds, 2)))
    return rounds


def compare(options: Options) -> dict[str, float | str | None]:
    """Times in ms of one and of two devices, and their ratio, with the same work for each."""
    import processes
    from peers import SHARDWAY

    def measure(devices: int, rounds: int) -> dict[str, float] | str:
        command = [str(SHARDWAY), "run", "--islands", "1", "--hosts", "1", "--devices"]
        command += [str(devices), __file__, str(rounds), str(options.repeats)]
        outcome = processes.run([command], {}, options.deadline_s)
        found = [json.loads(line) for line in outcome.lines if line.startswith("{")]
        return found[-1] if found else outcome.trouble or "no result"

    one = measure(1, 0)
    if isinstance(one, str):
        return {"ratio": None, "reason": one}
    two = measure(2, int(one["rounds"]))
    if isinstance(two, str):
        return {"ratio": None, "reason": two}
    return {
        "one_device_ms": round(one["seconds"] * 1e3, 3),
        "two_devices_ms": round(two["seconds"] * 1e3, 3),
        "ratio": round(two["seconds"] / one["seconds"], 3),
        "limit": LIMIT,
    }


if __name__ == "__main__":
    rounds, repeats = int(sys.argv[1]) or calibrate(), int(sys.argv[2])
    print(json.dumps({"rounds": rounds, "seconds": step_seconds(rounds, repeats)}), flush=True)
