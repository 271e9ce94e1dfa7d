"""Shardings that JAX does not write itself, number by number: see spmd_notation_programs.py."""

from __future__ import annotations

from own_process import outcome_of

DEADLINE_S = 240


def test_every_notation_equals_one_device() -> None:
    outcome = outcome_of("spmd_notation_programs.py", deadline_s=DEADLINE_S)
    assert len(outcome) == 8
    assert {name: error for name, error in outcome.items() if error} == {}
