"""The partitioner against JAX, number by number, without the runtime: see spmd_oracle.py.

The programs run in processes of their own, since they need JAX's CPU backend with 8 devices.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BATCHES = 6
DEADLINE_S = 280


@pytest.mark.parametrize("batch", range(BATCHES))
def test_partitioned_programs_equal_their_twins(batch: int) -> None:
    environment = os.environ | {"SPMD_BATCH": f"{batch}/{BATCHES}"}
    environment.pop("JAX_PLATFORMS", None)
    done = subprocess.run(
        [sys.executable, str(HERE / "spmd_oracle.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout)
    assert len(outcome) > 10
    wrong = {name: error for name, error in outcome.items() if error}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
