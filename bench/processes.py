"""Runs the peers' processes under deadlines, and leaves none behind, whatever they start."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Outcome:
    """What came of a group of processes."""

    lines: list[str]  # of the first process's standard output, also when it failed
    trouble: str | None  # why there may be fewer than expected


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends: none gets away, nor when
    this one is asked to end (SIGTERM)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def end_descendants() -> None:
    """Kills all descendants of this process, and theirs, and waits for them."""
    for _ in range(50):
        descendants = psutil.Process().children(recursive=True)
        if not descendants:
            return
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(descendants, timeout=1)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Ours with `settings`, without what would choose a backend or its devices."""
    base = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS")}
    return base | dict(settings)


def run(
    commands: Sequence[Sequence[str]], settings: Mapping[str, str], deadline_s: float
) -> Outcome:
    """Runs the commands side by side until all have ended or the deadline has passed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            started = [
                subprocess.Popen(
                    command,
                    env=environment(settings),
                    stdin=subprocess.DEVNULL,
                    stdout=out if i == 0 else subprocess.DEVNULL,
                    stderr=errors,
                )
                for i, command in enumerate(commands)
            ]
            trouble = _wait(started, time.monotonic() + deadline_s, deadline_s)
        except OSError as error:
            trouble = str(error)
        finally:
            end_descendants()
        out.seek(0)
        errors.seek(0)
        if trouble:
            last = [line for line in errors.read().splitlines() if line.strip()][-1:]
            trouble = ": ".join([trouble, *(line[:300] for line in last)])
        return Outcome(out.read().splitlines(), trouble)


def _wait(started: list[subprocess.Popen[bytes]], until: float, deadline_s: float) -> str | None:
    while True:
        codes = [p.poll() for p in started]
        failed = [c for c in codes if c not in (None, 0)]
        if failed:
            return f"exit code {failed[0]}"
        if None not in codes:
            return None
        if time.monotonic() > until:
            return f"stuck: not done after {deadline_s:.0f} s"
        time.sleep(0.02)
