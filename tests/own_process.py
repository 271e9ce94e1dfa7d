"""Scripts of this folder that need JAX's CPU backend with 8 devices run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def outcome_of(script: str, *arguments: str, deadline_s: float, **environment: str) -> Any:
    """What `script` prints as JSON in its last line. Fails the test with its errors if it ends badly."""
    settings = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"} | environment
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=settings,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
