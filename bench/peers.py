"""The runtimes that bench/dispatch.py puts side by side, each measured in processes of its own.

Every peer is a function (devices, modes, options) -> Measured. What could not be measured is missing from
the rates, and the reason says why.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import processes

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
SHARDWAY = Path(sys.executable).parent / "shardway"
ONE_THREAD_EACH = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Options:
    repeats: int
    deadline_s: float  # for one peer with one number of devices
    bare_loop: Path  # the program of bench/bare_loop.cc


@dataclass
class Measured:
    rates: dict[str, float] = field(default_factory=dict)  # mode -> computations/s
    reason: str | None = None  # why some modes are missing


Peer = Callable[[int, Sequence[str], Options], Measured]


def _measured(outcome: processes.Outcome) -> Measured:
    rates: dict[str, float] = {}
    for line in outcome.lines:
        if line.startswith("{"):
            rates |= json.loads(line)
    return Measured(rates, outcome.trouble)


def _member(modes: Sequence[str], options: Options) -> list[str]:
    return [
        str(BENCH / "member.py"), "--modes", ",".join(modes), "--repeats", str(options.repeats)
    ]  # fmt: skip


def run_shardway(hosts: int, devices: int, script: Sequence[str], deadline_s: float) -> Measured:
    """A script and its arguments on a private cluster of `hosts` x `devices`."""
    command = [str(SHARDWAY), "run", "--islands", "1", "--hosts", str(hosts), "--devices"]
    return _measured(processes.run([[*command, str(devices), *script]], {}, deadline_s))


def run_gloo(devices: int, script: Sequence[str], deadline_s: float) -> Measured:
    """The same as multi-controller JAX: a process for each device, Gloo between them."""
    coordinator = f"127.0.0.1:{processes.free_port()}"
    commands = [
        [
            sys.executable, *script, "--collectives", "gloo",
            "--processes", str(devices), "--index", str(i), "--coordinator", coordinator,
        ]
        for i in range(devices)
    ]  # fmt: skip
    return _measured(processes.run(commands, {"JAX_PLATFORMS": "cpu"}, deadline_s))


def _shardway(hosts: int, devices: int, modes: Sequence[str], options: Options) -> Measured:
    script = [*_member(modes, options), "--expect", str(hosts * devices)]
    return run_shardway(hosts, devices, script, options.deadline_s)


def shardway(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """One host with all devices."""
    return _shardway(1, devices, modes, options)


def shardway_hosts(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """A host for each device: the shape of the multi-controller peers."""
    return _shardway(devices, 1, modes, options)


def jax_gloo(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """Multi-controller JAX: a process for each device, Gloo between them."""
    return run_gloo(devices, _member(modes, options), options.deadline_s)


def jax_mpi(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """Multi-controller JAX over MPI. jaxlib reaches MPI through MPItrampoline, which loads a wrapper
    library around the MPI that is installed; neither Debian nor PyPI carries that wrapper."""
    wrapper = os.environ.get("MPITRAMPOLINE_LIB")
    mpiexec = shutil.which("mpiexec")
    if not wrapper or not mpiexec:
        return Measured(
            reason="no mpiexec, or MPITRAMPOLINE_LIB does not name an MPIwrapper library"
        )
    coordinator = f"127.0.0.1:{processes.free_port()}"
    command = [mpiexec]
    for i in range(devices):
        command += [":"] if i else []
        command += ["-n", "1", sys.executable, *_member(modes, options), "--collectives", "mpi"]
        command += ["--processes", str(devices), "--index", str(i), "--coordinator", coordinator]
    return _measured(processes.run([command], {"JAX_PLATFORMS": "cpu"}, options.deadline_s))


def jax_single(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """Single-process JAX with forced CPU devices. It sticks in its rendezvous with many calls in
    flight, so it may have 32, and a deadline of its own."""
    command = [sys.executable, *_member(modes, options), "--window", "32"]
    settings = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    return _measured(processes.run([command], settings, min(options.deadline_s, 90)))


def ray(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """An actor for each device, which runs the same JAX program over Gloo when it is called."""
    command = [sys.executable, str(BENCH / "ray_actors.py"), "--modes", ",".join(modes)]
    command += ["--actors", str(devices), "--repeats", str(options.repeats)]
    settings = ONE_THREAD_EACH | {"JAX_PLATFORMS": "cpu", "RAY_USAGE_STATS_ENABLED": "0"}
    return _measured(processes.run([command], settings, options.deadline_s))


def _bare(flag: str, devices: int, modes: Sequence[str], options: Options) -> Measured:
    import lammps_jax_pjrt_cpu

    if not options.bare_loop.exists():
        return Measured(reason=f"{options.bare_loop} is not built")
    command = [str(options.bare_loop), lammps_jax_pjrt_cpu.PLUGIN_PATH, str(devices), *modes, flag]
    return _measured(processes.run([command], {}, options.deadline_s))


def bare(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """The same executables and collective handlers driven by plain threads, with no runtime."""
    return _bare("--spin", devices, modes, options)


def bare_no_spin(devices: int, modes: Sequence[str], options: Options) -> Measured:
    """The bare loop without spinning, which only pays where each device has a core to itself."""
    return _bare("--no-spin", devices, modes, options)


PEERS: dict[str, Peer] = {
    "shardway": shardway,
    "shardway_hosts": shardway_hosts,
    "jax_gloo": jax_gloo,
    "jax_mpi": jax_mpi,
    "jax_single": jax_single,
    "ray": ray,
    "bare": bare,
    "bare_no_spin": bare_no_spin,
}
