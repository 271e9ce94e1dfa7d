"""Memory of controller and workers over many runs: it must not grow with their number.

Run under `shardway run`. The cluster's processes are found as descendants of this script's own
process and of its parent; their resident memory is read after a warm-up and after the runs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers import Options

RUNS = 100_000
WARM_UP = 20_000
LIMIT_KIB = 4096  # what an allocator may still gather; a leak of 64 bytes a run is 6,250 KiB


def resident_kib() -> int:
    """The resident memory of all `shardway` processes of this script's private cluster."""
    import psutil

    family = [psutil.Process(), *psutil.Process().parents()[:1]]
    processes = {p for top in family for p in [top, *top.children(recursive=True)]}
    ours = [p for p in processes if p.name() == "shardway"]
    if not ours:
        raise SystemExit("no shardway process among the script's relatives")
    return sum(p.memory_info().rss for p in ours) // 1024


def growth() -> dict[str, int]:
    from programs import Bench, run_calls

    bench = Bench()
    call, _ = bench.program("opbyop")
    run_calls(call, bench.x, WARM_UP, 0)
    before = resident_kib()
    run_calls(call, bench.x, RUNS, 0)
    after = resident_kib()
    return {"runs": RUNS, "before_kib": before, "after_kib": after, "growth_kib": after - before}


def check(options: Options) -> dict[str, int | str]:
    """Runs this file on a private cluster of 2 hosts x 2 devices."""
    import processes
    from peers import SHARDWAY

    command = [str(SHARDWAY), "run", "--hosts", "2", "--devices", "2", __file__]
    outcome = processes.run([command], {}, options.deadline_s)
    found = [json.loads(line) for line in outcome.lines if line.startswith("{")]
    if not found:
        return {"reason": outcome.trouble or "no result"}
    return found[-1] | {"limit_kib": LIMIT_KIB}


if __name__ == "__main__":
    print(json.dumps(growth()), flush=True)
