"""One process of a JAX peer: measures the modes and prints a JSON line {mode: computations/s}.

Which backend it measures is decided by the environment (JAX_PLATFORMS) and by whoever starts it
(`shardway run`); with --processes it is one member of a multi-controller run.
"""

from __future__ import annotations

import argparse
import json

import jax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", required=True, help="comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--window", type=int, default=0, help="calls in flight; 0: any number")
    parser.add_argument("--expect", type=int, help="devices there must be")
    parser.add_argument("--collectives", choices=["gloo", "mpi"], help="multi-controller over this")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--coordinator", help="address:port of process 0")
    args = parser.parse_args()

    if args.collectives:
        jax.config.update("jax_cpu_collectives_implementation", args.collectives)
        jax.distributed.initialize(args.coordinator, args.processes, args.index)

    from programs import Bench, measure  # after the runtime has been set up

    if args.expect and len(jax.devices()) != args.expect:
        raise SystemExit(f"{len(jax.devices())} devices instead of {args.expect}")
    bench = Bench()
    for mode in args.modes.split(","):
        rate = measure(bench, mode, args.repeats, args.window)
        if args.index == 0:  # a line each, so that what was measured survives a later failure
            print(json.dumps({mode: rate}), flush=True)


if __name__ == "__main__":
    main()
