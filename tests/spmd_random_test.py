"""Random operators, shapes, meshes and shardings against one device: see spmd_random.py.

SHARDWAY_RANDOM_CASES=2000 is the full sweep, with a seed of its own unless SHARDWAY_RANDOM_SEED gives
one; without it a sample that is always the same.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CASES = int(os.environ.get("SHARDWAY_RANDOM_CASES", "0"))
SEED = int(os.environ.get("SHARDWAY_RANDOM_SEED", random.randrange(10**9) if CASES else 1))
SAMPLE = 96
PROCESSES = 2
DEADLINE_S = 280


@pytest.mark.parametrize("part", range(PROCESSES))
def test_random_operators_equal_their_twins(part: int) -> None:
    cases = (CASES or SAMPLE) // PROCESSES
    environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    command = [sys.executable, str(HERE / "spmd_random.py")]
    command += ["--cases", str(cases), "--seed", str(SEED + part)]
    print("seed", SEED + part)
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S + cases,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["cases"] >= cases
    assert outcome["uneven"] > outcome["cases"] / 2
    wrong = outcome["wrong"]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
