"""Random operators, programs, shapes, meshes and shardings against one device: see spmd_random.py.

2,000 operators a run, as many products as a quarter of that with every product windowed, and programs of
several operators, one for each 80 of these. The seed is always the same unless SHARDWAY_RANDOM_SEED gives one
(`random`: a new one); SHARDWAY_RANDOM_CASES says how many.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from own_process import outcome_of
from seeds import seed_of_run

CASES = int(os.environ.get("SHARDWAY_RANDOM_CASES", "2000"))
PROCESSES = 2


def outcomes(cases: int, seed: int, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    """What the processes say, each with a seed of its own; none of their cases is wrong."""
    each = -(-cases // PROCESSES)

    def part(number: int) -> dict[str, Any]:
        outcome: dict[str, Any] = outcome_of(
            "spmd_random.py",
            *("--cases", str(each), "--seed", str(seed + number), *arguments),
            deadline_s=280 + 4 * each,
            **environment,
        )
        return outcome

    with ThreadPoolExecutor(PROCESSES) as pool:
        parts = list(pool.map(part, range(PROCESSES)))
    wrong = {name: error for outcome in parts for name, error in outcome["wrong"].items()}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
    assert sum(outcome["cases"] for outcome in parts) >= cases
    return parts


def test_random_operators_equal_their_twins() -> None:
    parts = outcomes(CASES, seed_of_run("1"))
    assert sum(p["uneven"] for p in parts) > sum(p["cases"] for p in parts) / 2


def test_random_windowed_einsums_equal_their_twins() -> None:
    seed = seed_of_run("1") + PROCESSES
    parts = outcomes(CASES // 4, seed, "--only", "dot", SPMD_FLAGS="--windowed-einsum always")
    assert sum(p["rings"] for p in parts) > sum(p["cases"] for p in parts) / 20


def test_random_programs_equal_their_twins() -> None:
    parts = outcomes(CASES // 80, seed_of_run("1") + 2 * PROCESSES, "--programs")
    assert sum(p["uneven"] for p in parts) > sum(p["cases"] for p in parts) / 2
