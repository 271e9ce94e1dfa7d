"""What a jit call costs the client with N devices, beside a plugin whose Execute does nothing.

The time of the dispatching thread per call, from bursts short enough that nothing holds it back. Runs
itself once in each world: `compare` starts this file with a plugin's name.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers import Options

BURST = 100  # calls
BURSTS = 60
LIMIT = 1.5  # our time over the null plugin's, at most


def microseconds_per_call() -> float:
    """The best burst's CPU time of this thread, per call."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    spread = NamedSharding(mesh, P("x"))
    x = jax.device_put(np.ones((mesh.size,), np.float32), spread)
    call = jax.jit(lambda v: v + 1, in_shardings=spread, out_shardings=spread)
    jax.block_until_ready(call(x))
    times = []
    for _ in range(BURSTS):
        y = x
        begun = time.thread_time()
        for _ in range(BURST):
            y = call(y)
        times.append(time.thread_time() - begun)
        jax.block_until_ready(y)
        time.sleep(0.002)  # let what was freed be freed outside the next burst
    return min(times) / BURST * 1e6


def compare(devices: int, null_plugin: Path, options: Options) -> dict[str, float | str | None]:
    """Microseconds per call on Shardway and on the null plugin, and their ratio."""
    import processes
    from peers import SHARDWAY

    def measure(command: list[str], settings: dict[str, str]) -> float | str:
        outcome = processes.run([command], settings, options.deadline_s)
        found = [json.loads(line) for line in outcome.lines if line.startswith("{")]
        return found[-1]["us"] if found else outcome.trouble or "no result"

    shape = ["--islands", "1", "--hosts", "1", "--devices", str(devices)]
    ours = measure([str(SHARDWAY), "run", *shape, __file__], {})
    null = measure(
        [sys.executable, __file__, str(null_plugin)],
        {"JAX_PLATFORMS": "null", "NULL_PLUGIN_DEVICES": str(devices)},
    )
    if isinstance(ours, str) or isinstance(null, str):
        return {"ratio": None, "reason": f"Shardway: {ours}; null plugin: {null}"}
    return {
        "devices": devices,
        "us": round(ours, 2),
        "null_us": round(null, 2),
        "ratio": round(ours / null, 2),
        "limit": LIMIT,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from jax._src import xla_bridge

        xla_bridge.register_plugin("null", library_path=sys.argv[1])
    print(json.dumps({"us": microseconds_per_call()}), flush=True)
