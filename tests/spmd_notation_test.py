"""Shardings that JAX does not write itself, number by number: see spmd_notation_programs.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEADLINE_S = 240


def test_every_notation_equals_one_device() -> None:
    environment = os.environ.copy()
    environment.pop("JAX_PLATFORMS", None)
    done = subprocess.run(
        [sys.executable, str(HERE / "spmd_notation_programs.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout)
    assert len(outcome) == 7
    assert {name: error for name, error in outcome.items() if error} == {}
