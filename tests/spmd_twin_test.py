"""The partitioner against JAX, number by number, without the runtime: see spmd_oracle.py.

The programs run in processes of their own, since they need JAX's CPU backend with 8 devices.
"""

from __future__ import annotations

import pytest
from own_process import outcome_of

BATCHES = 6
DEADLINE_S = 280


@pytest.mark.parametrize("batch", range(BATCHES))
def test_partitioned_programs_equal_their_twins(batch: int) -> None:
    outcome = outcome_of("spmd_oracle.py", deadline_s=DEADLINE_S, SPMD_BATCH=f"{batch}/{BATCHES}")
    assert len(outcome) > 10
    wrong = {name: error for name, error in outcome.items() if error}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
