"""How a program is partitioned, and why: `shardway.explain(f, *args)` and `shardway explain script.py`.

An explanation lists the operators of a jitted function with the sharding of every value and who decided
it, and the collectives of the per-device program with the bytes they send and the line of the user's
code that they are there for.

    python -m shardway.explanation DIRECTORY [--html PAGE]      what SHARDWAY_DUMP=DIRECTORY left
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPILE_DEADLINE_S = 300


@dataclass(frozen=True)
class Where:
    """A line of the user's code; `file` is empty and `line` 0 where it is not known."""

    file: str
    line: int
    column: int
    name: str  # JAX's name stack: "jit(step)/dot_general"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else self.name


@dataclass(frozen=True)
class Reason:
    """Why some axes split a dimension: an annotation, or the operator through which they came."""

    axes: str  # "x", "x,y", "x:(1)2" (2 ways of x, minor to 1)
    dimension: int
    annotation: bool
    operator: str  # "" for an annotation
    where: Where
    origin: str  # the annotation at the other end: "params['w']", "result 0", "sharding_constraint at …"

    def __str__(self) -> str:
        if self.annotation:
            return f"{self.axes}: annotation"
        at = f" ({self.where})" if self.where.file else ""
        return f"{self.axes}: through {self.operator}{at} from {self.origin}"


@dataclass(frozen=True)
class Value:
    """A result of an operator. `type` is the whole array's, `shard` that of one device's part."""

    type: str
    shard: str
    sharding: str  # for each dimension the axes that split it: "[{x}, {}]"
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Operator:
    """An operator of the program, before partitioning; "argument" and "result" are the program's own."""

    operator: str  # "dot_general"
    name: str  # of an argument or result
    depth: int  # loops and branches around it
    where: Where
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Collective:
    """A collective of the per-device program."""

    site: int
    kind: str  # "all_reduce"
    call: str  # "all_reduce sum f32[8,4] over axes [1] of [2,4]"
    axes: str  # over which its groups are: "y"; "" where they are no mesh axes
    bytes: float  # that one device sends in one call
    times: float | None  # in one run; None where a loop around it does not say
    cause: str
    where: Where

    def __str__(self) -> str:
        return f"{self.call.partition(' over ')[0]} over {self.axes}" if self.axes else self.call

    @property
    def total_bytes(self) -> float:
        """Bytes in one run; calls in a loop of unknown length count once."""
        return self.bytes * (1 if self.times is None else self.times)


@dataclass(frozen=True)
class Explanation:
    """One jitted function. Sizes are bytes, per device and run."""

    name: str  # "jit_step"
    devices: int
    replicas: int
    mesh: dict[str, int]
    operators: tuple[Operator, ...]
    collectives: tuple[Collective, ...]

    @property
    def bytes(self) -> float:
        """What one device sends in one run; calls in a loop of unknown length count once."""
        return sum(c.total_bytes for c in self.collectives)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """From what the compiler writes (shardway/compile/explanation.h)."""
        program = json.loads(text)

        def operator(o: dict[str, Any]) -> Operator:
            values = tuple(value(v) for v in o["values"])
            return Operator(o["operator"], o["name"], o["depth"], Where(**o["where"]), values)

        def value(v: dict[str, Any]) -> Value:
            reasons = (Reason(**(r | {"where": Where(**r["where"])})) for r in v["reasons"])
            return Value(v["type"], v["shard"], v["sharding"], tuple(reasons))

        return cls(
            name=program["name"],
            devices=program["devices"],
            replicas=program["replicas"],
            mesh={axis["name"]: axis["size"] for axis in program["mesh"]},
            operators=tuple(operator(o) for o in program["operators"]),
            collectives=tuple(
                Collective(**(c | {"where": Where(**c["where"])})) for c in program["collectives"]
            ),
        )

    def __str__(self) -> str:
        axes = ",".join(f"{name}={size}" for name, size in self.mesh.items())
        lines = [f"{self.name}  {self.devices} devices  mesh {axes or '-'}", "  operators"]
        for op in self.operators:
            indent = "    " + "  " * op.depth
            at = f"  {op.where}" if op.where.file else ""
            lines.append(f"{indent}{op.name or op.operator}{at}")
            for v in op.values:
                lines.append(f"{indent}  {v.type} {v.sharding} shard {v.shard}")
                lines += [f"{indent}    {reason}" for reason in v.reasons]
        lines.append(f"  collectives: {len(self.collectives)}, {in_bytes(self.bytes)} per device")
        for c in self.collectives:
            times = "?" if c.times is None else f"{c.times:g}"
            lines.append(f"    {c}  {in_bytes(c.bytes)} x {times}  {c.where}")
            lines.append(f"      {c.cause}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from shardway.explanation_page import section

        return section(self)


def in_bytes(count: float) -> str:
    """3 B, 4.0 KiB, 2.5 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def explain(
    fn: Callable[..., Any], *args: Any, propagate_results: bool = True, **kwargs: Any
) -> Explanation:
    """How `fn(*args, **kwargs)` would be partitioned, and why. Nothing runs on a device.

    `fn` is a function or what `jax.jit` made of one; the arguments are arrays of any shape, or
    `jax.ShapeDtypeStruct`s, sharded as a call would find them (`jax.jit(in_shardings=…)`, or arrays
    that already are). The answer holds, for every operator, the types of the whole array and of one
    device's shard, and, for every collective, the bytes that one device sends in one call.

    `propagate_results`: whether results that say nothing may be split, as in a call of `jax.jit`.
    Raises ValueError for a program that the compiler refuses, with its message (value, axis and the
    user's line), RuntimeError when the `shardway` program is not installed or does not answer.

    Source: GSPMD (arXiv 2105.04663) §3.5, the completion whose decisions are shown here.
    """
    import jax

    from shardway.artifact import from_lowered
    from shardway.jax_plugin import binary_path
    from shardway.meshes import places_of

    binary = binary_path()
    if binary is None:
        raise RuntimeError("the `shardway` program is missing; install the package again")
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    lowered = jitted.lower(*args, **kwargs)
    program = from_lowered(lowered)
    with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
        file.write(program)
        file.flush()
        command = [str(binary), "compile", file.name, "--explain"]
        if propagate_results:
            command.append("--propagate-out")
        # Where the program would run: what crosses hosts and islands may be dearer.
        devices = getattr(getattr(lowered, "_lowering", None), "_device_list", None)
        command += places_of(tuple(devices or ()))
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=COMPILE_DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(
                f"the compiler did not answer within {COMPILE_DEADLINE_S} s"
            ) from error
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"the compiler ended with {done.returncode}")
    return Explanation.from_json(done.stdout)


def read_dumps(directory: Path) -> list[Explanation]:
    """What SHARDWAY_DUMP left in a directory: one for each program, in the order of compilation."""
    return [
        Explanation.from_json(path.read_text())
        for path in sorted(directory.glob("*.explanation.json"))
    ]


def main() -> int:
    from shardway.explanation_page import page

    parser = argparse.ArgumentParser(description="Prints what SHARDWAY_DUMP left in a directory.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--html", type=Path, help="write a page to this file instead")
    options = parser.parse_args()
    programs = read_dumps(options.directory)
    shown = [p for p in programs if p.devices * p.replicas > 1]
    if options.html:
        options.html.write_text(page(shown))
        print(f"{options.html}: {len(shown)} programs")
        return 0
    for program in shown:
        print(program, end="\n\n")
    if len(shown) < len(programs):
        print(f"and {len(programs) - len(shown)} programs for one device")
    return 0


if __name__ == "__main__":
    sys.exit(main())
