"""How fast each runtime dispatches: the paper's Figure 5, every peer on this machine in one run.

A scalar AllReduce followed by a scalar add, in computations per second:
  opbyop      one jit call each
  fused       128 of them unrolled in one jit call
  fused_loop  128 of them in a fori_loop in one jit call
on Shardway as one host with N devices and as N hosts with one (the peers' shape), multi-controller JAX
over Gloo (and MPI where it can be had), single-process JAX with N forced CPU devices, Ray actors, and
the bare loop: the same executables and handlers with no runtime. What could not be measured is null,
and `notes` says why. The best of several batches counts. Then, unless --rates-only: a step with real work
(work_step.py), what a call costs the client (client_cost.py), how long the
demo's step compiles (demo_compile.py), and memory over 100,000 runs (memory_growth.py).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import client_cost
import demo_compile
import figure
import memory_growth
import processes
import work_step
from peers import PEERS, ROOT, Options
from programs import MODES


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def names(text: str, known: list[str]) -> list[str]:
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
    return chosen


def measure(
    devices: list[int], peers: list[str], modes: list[str], options: Options
) -> dict[str, Any]:
    """{mode: {devices: {peer: rate or null}}}, and under "notes" the reasons for the nulls."""
    result: dict[str, Any] = {mode: {str(n): {} for n in devices} for mode in modes}
    notes: dict[str, str] = {}
    for n in devices:
        for peer in peers:
            begun = time.monotonic()
            measured = PEERS[peer](n, modes, options)
            for mode in modes:
                rate = measured.rates.get(mode)
                result[mode][str(n)][peer] = None if rate is None else round(rate)
            if measured.reason:
                notes[f"{peer}, {n} devices"] = measured.reason
            rates = "  ".join(f"{m} {measured.rates[m]:,.0f}" for m in modes if m in measured.rates)
            say(
                f"{n:3d} devices  {peer:14s} {rates or 'nothing'}  "
                f"({time.monotonic() - begun:.0f} s{'; ' + measured.reason if measured.reason else ''})"
            )
    return result | {"notes": notes}


def ratios(result: dict[str, Any]) -> list[str]:
    """The comparisons that matter, one line for each mode and number of devices."""
    lines = []
    for mode in MODES:
        for n, rates in result.get(mode, {}).items():
            said = [
                f"{ours} / {theirs} {rates[ours] / rates[theirs]:.2f}"
                for ours in ("shardway", "shardway_hosts")
                for theirs in ("jax_gloo", "bare", "bare_no_spin")
                if rates.get(ours) and rates.get(theirs)
            ]
            if said:
                lines.append(f"{mode}, {n} devices: {'; '.join(said)}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--devices", default="2,4,8,16", help="comma-separated")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5, help="batches; the best one counts")
    parser.add_argument("--deadline", type=float, default=240, help="seconds for a peer")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "bench", help="where the native parts are"
    )
    parser.add_argument("--rates-only", action="store_true", help="only Figure 5")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    parser.add_argument("--out", type=Path, help="write the result as JSON to this file")
    parser.add_argument("--figure", type=Path, help="draw it into this PNG")
    args = parser.parse_args()
    try:
        devices = [int(n) for n in args.devices.split(",")]
        peers = names(args.peers, list(PEERS))
        modes = names(args.modes, list(MODES))
    except (ValueError, argparse.ArgumentTypeError) as error:
        parser.error(str(error))

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run() then ends what it started
    processes.adopt_orphans()
    options = Options(args.repeats, args.deadline, args.build / "bare_loop")
    result = measure(devices, peers, modes, options)
    if not args.rates_only and "shardway" in peers:
        result["work_step"] = work_step.compare(options)
        say(f"a step with real work, two devices / one: {result['work_step']}")
        result["client_cost"] = client_cost.compare(8, args.build / "null_plugin.so", options)
        say(f"a jit call in the client, Shardway / null plugin: {result['client_cost']}")
        result["demo_compile"] = demo_compile.compare(options)
        say(f"compiling the demo's training step: {result['demo_compile']}")
        result["memory"] = memory_growth.check(options)
        say(f"memory of controller and workers: {result['memory']}")
    for line in ratios(result):
        say(line)
    if args.figure:
        figure.draw(result, args.figure)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.json:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
