"""What the compiler takes for the demo's training step: import, propagation, partitioning, text.

The step of examples/train_lm.py on 2 islands of 4 devices, as a PJRT plugin is handed it. `compare` runs
this file in a process of its own, since it needs eight forced CPU devices to trace for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers import Options

ROOT = Path(__file__).resolve().parent.parent
LIMIT_MS = 100
REPEATS = 10


def seconds() -> float:
    """Seconds of the fastest of several compilations of the step."""
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]
    import jax
    import jax.numpy as jnp
    import spmd_oracle
    import train_lm

    model = train_lm.Model()
    optimizer = train_lm.make_optimizer(400)
    at = train_lm.Placement(train_lm.make_mesh(2), optimizer, model)
    params = jax.eval_shape(lambda key: train_lm.init(key, model), jax.random.key(0))
    batch = jax.ShapeDtypeStruct((8, model.context + 1), jnp.int32)
    lowered = train_lm.make_step(optimizer, at).lower(
        params, jax.eval_shape(optimizer.init, params), batch
    )
    with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
        file.write(spmd_oracle.artifact(lowered))
        file.flush()
        command = [spmd_oracle.compiler(), file.name, "--partitions", "8", "--time", str(REPEATS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return float(json.loads(done.stdout)["seconds"])


def compare(options: Options) -> dict[str, float | str]:
    """Milliseconds for the step, and the limit."""
    import processes

    settings = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    outcome = processes.run([[sys.executable, __file__]], settings, options.deadline_s)
    found = [json.loads(line) for line in outcome.lines if line.startswith("{")]
    if not found:
        return {"reason": outcome.trouble or "no result"}
    return {"ms": round(found[-1]["seconds"] * 1e3, 2), "limit": LIMIT_MS}


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print(json.dumps({"seconds": seconds()}), flush=True)
