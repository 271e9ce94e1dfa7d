"""Programs for spmd_oracle.py: those of twin_programs_test.py, and what the partitioner finds hard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import twin_programs_test
from spmd_oracle import twin


def cases() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for p in twin_programs_test.PROGRAMS:
        found[p.name] = lambda p=p: twin(p.fn, p.args, p.specs, p.out, tolerance=p.tolerance)
    return found
