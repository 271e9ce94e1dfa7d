"""Random operators, shapes, meshes and shardings against one device: see spmd_random.py.

SHARDWAY_RANDOM_CASES=2000 is the full sweep, with a seed of its own unless SHARDWAY_RANDOM_SEED gives
one; without it a sample that is always the same.
"""

from __future__ import annotations

import os
import random

import pytest
from own_process import outcome_of

CASES = int(os.environ.get("SHARDWAY_RANDOM_CASES", "0"))
SEED = int(os.environ.get("SHARDWAY_RANDOM_SEED", random.randrange(10**9) if CASES else 1))
SAMPLE = 96
PROCESSES = 2
DEADLINE_S = 280


@pytest.mark.parametrize("part", range(PROCESSES))
def test_random_operators_equal_their_twins(part: int) -> None:
    cases = (CASES or SAMPLE) // PROCESSES
    seed = SEED + part
    print("seed", seed)
    outcome = outcome_of(
        "spmd_random.py",
        *("--cases", str(cases), "--seed", str(seed)),
        deadline_s=DEADLINE_S + cases,
    )
    assert outcome["cases"] >= cases
    assert outcome["uneven"] > outcome["cases"] / 2
    wrong = outcome["wrong"]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def test_random_windowed_einsums_equal_their_twins() -> None:
    cases = (CASES or SAMPLE) // 4
    seed = SEED + PROCESSES
    print("seed", seed)
    outcome = outcome_of(
        "spmd_random.py",
        *("--cases", str(cases), "--seed", str(seed), "--only", "dot"),
        deadline_s=DEADLINE_S + cases,
        SPMD_FLAGS="--windowed-einsum always",
    )
    wrong = outcome["wrong"]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
    assert outcome["rings"] > outcome["cases"] / 20
