"""`make demo`, short: the same losses on two islands as on one CPU device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(600)
def test_demo_agrees_with_one_device() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--steps", "20"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["devices"] == 8
    assert result["islands"] == 2
    assert result["losses_max_diff_20"] <= 1e-4
    assert result["last_loss"] < result["first_loss"]
