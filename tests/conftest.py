"""Whole-system tests: this process's JAX is on a private cluster of 2 islands x 1 host x 4 devices.

The environment may say otherwise (JAX_PLATFORMS, SHARDWAY_ISLANDS and so on win). JAX's own CPU
backend stays at hand as jax.devices("cpu"), for unsharded twins. Tests that need another cluster, or
kill one, run scripts of their own: see `script`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {
    "JAX_PLATFORMS": "shardway,cpu",
    "SHARDWAY_ISLANDS": "2",
    "SHARDWAY_HOSTS": "1",
    "SHARDWAY_DEVICES": "4",
}
for name, value in SETTINGS.items():  # before any test imports jax
    os.environ.setdefault(name, value)


@dataclass
class Script:
    """A Python script in a process group of its own."""

    process: subprocess.Popen[str]

    def wait(self, deadline_s: float = 120) -> str:
        """Its standard output, once it has ended well."""
        try:
            out, errors = self.process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.end()
            out, errors = self.process.communicate()
            pytest.fail(f"the script was not done after {deadline_s:.0f} s\n{out}\n{errors}")
        assert self.process.returncode == 0, f"exit {self.process.returncode}\n{out}\n{errors}"
        return out

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture
def script() -> Iterator[Callable[..., Script]]:
    """Starts scripts: script(code, islands=1, hosts=1, devices=8, **environment).

    They get a private cluster of that shape, and are gone when the test ends.
    """
    started: list[Script] = []

    def start(
        code: str,
        islands: int = 1,
        hosts: int = 1,
        devices: int = 8,
        python: str = sys.executable,
        **environment: str,
    ) -> Script:
        settings = {
            "JAX_PLATFORMS": "shardway",
            "SHARDWAY_ISLANDS": str(islands),
            "SHARDWAY_HOSTS": str(hosts),
            "SHARDWAY_DEVICES": str(devices),
        }
        started.append(
            Script(
                subprocess.Popen(
                    [python, "-c", textwrap.dedent(code)],
                    env=os.environ | settings | environment,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    process_group=0,
                )
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.end()
        one.process.communicate(timeout=10)
