"""The seed of a run of random tests: printed, and given back by SHARDWAY_RANDOM_SEED."""

from __future__ import annotations

import os
import random


def seed_of_run(default: str) -> int:
    """What SHARDWAY_RANDOM_SEED says, else `default`: a number, or `random` for a new one."""
    given = os.environ.get("SHARDWAY_RANDOM_SEED", default)
    seed = random.SystemRandom().randrange(10**9) if given == "random" else int(given)
    print("SHARDWAY_RANDOM_SEED", seed)
    return seed
