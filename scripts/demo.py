"""`make demo`: trains examples/train_lm.py on a private cluster, then on JAX's CPU backend, and compares.

Three runs of the same script with the same seed: two islands through Shardway, one CPU device (the
reference), and eight forced CPU devices (the peer for speed; it sometimes sticks in its rendezvous,
so it runs under a deadline and its figure is then null). The last line is one JSON object. Exits with 0
only when the loss fell, the first 20 losses agree with one CPU device within 1e-4 relative, and the
validation losses within 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples" / "train_lm.py"
ISLANDS, HOSTS, DEVICES = 2, 1, 4  # hosts in an island, devices in a host

FIRST_LOSSES = 20
LOSS_TOLERANCE = 1e-4  # relative, each of the first losses
VALIDATION_TOLERANCE = 1e-2  # relative


def run(command: list[str], env: dict[str, str], deadline_s: float) -> str | None:
    """Runs a command with our terminal; None when it went well, else what happened.

    It gets a process group of its own and never outlives this function, whichever way that ends.
    """
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, process_group=0)
    try:
        code = process.wait(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return f"did not end within {deadline_s:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code < 0:
        return f"was ended by signal {signal.Signals(-code).name}"
    return None if code == 0 else f"exited with {code}"


def train(
    title: str, before: list[str], env: dict[str, str], args: list[str], deadline_s: float
) -> dict[str, Any] | str:
    """One training run: its results, or what went wrong."""
    print(f"\n== {title}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="shardway-demo-") as folder:
        out = Path(folder) / "result.json"
        command = [*before, str(SCRIPT), *args, "--json", str(out)]
        clean = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS")}
        trouble = run(command, clean | env, deadline_s)
        if trouble is None and not out.exists():
            trouble = "left no results"
        return trouble or json.loads(out.read_text())


def relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(b), 1e-12)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--deadline", type=float, help="seconds for each of the runs")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run() then ends what it started
    steps = ["--steps", str(args.steps)]
    # A step takes about 0.1 s on two cores; ten times that, and time to compile, is a failure.
    deadline_s = args.deadline or 300 + args.steps

    shardway = Path(sys.executable).parent / "shardway"
    shape = ["--islands", str(ISLANDS), "--hosts", str(HOSTS), "--devices", str(DEVICES)]
    ours = train(
        f"Shardway: {ISLANDS} islands x {HOSTS} host x {DEVICES} devices",
        [str(shardway), "run", *shape],
        {},
        steps,
        deadline_s,
    )
    if isinstance(ours, str):
        print(f"demo: the run on Shardway {ours}", file=sys.stderr)
        return 1

    cpu = train(
        "JAX's CPU backend: 1 device (the reference)",
        [sys.executable],
        {"JAX_PLATFORMS": "cpu"},
        steps,
        deadline_s,
    )
    if isinstance(cpu, str):
        print(f"demo: the run on one CPU device {cpu}", file=sys.stderr)
        return 1

    forced = ISLANDS * HOSTS * DEVICES
    cpu8 = train(
        f"JAX's CPU backend: {forced} forced devices (the peer)",
        [sys.executable],
        {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={forced}",
        },
        [*steps, "--data", str(ISLANDS), "--sample-bytes", "0"],
        # Enough for four times what we took.
        120 + 4 * args.steps * 1024 / max(ours["tokens_per_s"], 1),
    )
    if isinstance(cpu8, str):
        print(f"demo: the run on {forced} forced CPU devices {cpu8}; no figure", file=sys.stderr)

    first = list(zip(ours["losses"], cpu["losses"], strict=True))[:FIRST_LOSSES]
    max_diff = max(relative(a, b) for a, b in first)
    result = {
        "steps": ours["steps"],
        "first_loss": ours["first_loss"],
        "last_loss": ours["last_loss"],
        "validation_loss": ours["validation_loss"],
        "cpu_last_loss": cpu["last_loss"],
        "cpu_validation_loss": cpu["validation_loss"],
        "losses_max_diff_20": max_diff,
        "tokens_per_s": ours["tokens_per_s"],
        "cpu8_tokens_per_s": None if isinstance(cpu8, str) else cpu8["tokens_per_s"],
        "islands": ours["islands"],
        "devices": ours["devices"],
    }

    wrong = []
    if (ours["islands"], ours["devices"]) != (ISLANDS, forced):
        wrong.append(f"JAX saw {ours['devices']} devices in {ours['islands']} islands")
    if not ours["last_loss"] < ours["first_loss"]:
        wrong.append("the loss did not fall")
    if not max_diff <= LOSS_TOLERANCE:
        wrong.append(
            f"the first {len(first)} losses differ by {max_diff:.1e} from one CPU device's"
        )
    if not relative(ours["validation_loss"], cpu["validation_loss"]) <= VALIDATION_TOLERANCE:
        wrong.append("the validation losses differ by more than 1 %")
    print(file=sys.stderr)
    for what in wrong:
        print(f"demo: {what}", file=sys.stderr)
    sys.stderr.flush()
    print(json.dumps(result), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
