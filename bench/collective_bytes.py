"""What a partitioned program sends: bytes per device and number of collectives, read from its HLO text.

One counter reads XLA's partitioned program (the dump after its SPMD partitioning) and ours (the native
form, converted to HLO). Over n devices of a group a device sends

    all-reduce           2 (n-1)/n of its operand        reduce-scatter   (n-1)/n of its operand
    all-gather           (n-1)/n of its result           all-to-all       (n-1)/n of its operand
    collective-permute   its operand

times the trip count of the loops around it; of the branches of a conditional the dearest counts. An
all-reduce whose every use slices out the device's own shard (the offsets are evaluated for each device of
the group) counts as the reduce-scatter that later passes make of it. Groups of one device send nothing.

The hops of a windowed einsum (permutes that say so, with `shardway.ring` among their frontend attributes)
send what they send, and count together as the one collective that they are in the place of.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator

ELEMENT_BITS = {"pred": 8, "token": 0, "opaque": 0, "bf16": 16, "c64": 64, "c128": 128}
KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = ")
ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\]")
MESH_GROUPS = re.compile(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? ?\{([^}]*)\}"
)
# What may stand between an all-reduce and the slice of the own shard.
SHAPELESS = ("reshape", "copy", "bitcast", "transpose", "pad")


@dataclasses.dataclass
class Instruction:
    name: str
    type: str
    opcode: str
    operands: list[str]
    raw: str  # what stands in the parentheses, of constants the value
    attributes: str

    def computation(self, key: str) -> str | None:
        match = re.search(rf"\b{key}=%?([\w.\-]+)", self.attributes)
        return match[1] if match else None

    def groups(self, devices: int) -> list[list[int]]:
        return parse_groups(self.attributes, devices)


@dataclasses.dataclass
class Computation:
    instructions: dict[str, Instruction] = dataclasses.field(default_factory=dict)
    root: str = ""
    caller: tuple[Computation, Instruction] | None = None  # the loop around it

    def users(self, name: str) -> list[Instruction]:
        return [i for i in self.instructions.values() if name in i.operands]


@dataclasses.dataclass
class Collective:
    kind: str
    type: str
    group: int  # devices in a group
    bytes: float  # that a device sends in one run
    trips: float
    loop: str = ""  # the body it is in
    ring: str = ""  # the windowed einsum it is a hop of

    def __str__(self) -> str:
        times = f" x{self.trips:g}" if self.trips != 1 else ""
        return f"{self.kind} {self.type} over {self.group}{times}: {self.bytes * self.trips:.0f} B"


@dataclasses.dataclass
class Count:
    collectives: list[Collective]

    @property
    def bytes(self) -> float:
        return sum(c.bytes * c.trips for c in self.collectives)

    @property
    def number(self) -> float:
        rings: dict[str, float] = {}
        for c in self.collectives:
            if c.ring:  # its first hop is outside the windowed einsum's own loop
                rings[c.ring] = min(c.trips, rings.get(c.ring, c.trips))
        return sum(c.trips for c in self.collectives if not c.ring) + sum(rings.values())


def element_bits(name: str) -> int:
    if name in ELEMENT_BITS:
        return ELEMENT_BITS[name]
    match = re.match(r"[a-z]+(\d+)", name)
    return int(match[1]) if match else 0


def type_bytes(text: str) -> float:
    total = 0.0
    for element, dims in ARRAY.findall(text):
        size = 1
        for d in dims.split(","):
            size *= int(d.strip("<=")) if d else 1
        total += size * element_bits(element) / 8
    return total


def type_dims(text: str) -> list[int]:
    match = ARRAY.search(text)
    return [int(d.strip("<=")) for d in match[2].split(",") if d] if match else []


def parse_groups(attributes: str, devices: int) -> list[list[int]]:
    iota = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", attributes)
    if iota:
        rows, columns = (int(d) for d in iota[1].split(","))
        ids = _device_order(iota[2], iota[3], devices)
        return [ids[r * columns : (r + 1) * columns] for r in range(rows)]
    if axes := MESH_GROUPS.search(attributes):
        return _mesh_groups(axes[1], _device_order(axes[2], axes[3], devices), axes[4])
    if "replica_groups=mesh" in attributes:
        raise ValueError(f"groups that the counter cannot read: {attributes[:200]}")
    lists = re.search(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}", attributes)
    found = [
        [int(d) for d in group.split(",") if d]
        for group in re.findall(r"\{([\d,]*)\}", lists[1] if lists else "")
    ]
    return found or [list(range(devices))]


def _device_order(dims: str | None, transposed: str | None, devices: int) -> list[int]:
    """iota, reshaped to `dims` and transposed."""
    sizes = [int(d) for d in dims.split(",")] if dims else [devices]
    order = [int(d) for d in transposed.split(",")] if transposed else list(range(len(sizes)))
    strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    ids = [0]
    for d in order:
        ids = [i + k * strides[d] for i in ids for k in range(sizes[d])]
    return ids


def _mesh_groups(mesh: str, ids: list[int], axes: str) -> list[list[int]]:
    """Groups as axes of a mesh: 'x'=2,'y'=4 and 'x','y':(2)2, sub-axes as (size before)size."""
    sizes = {name: int(n) for name, n in re.findall(r"'([^']+)'=(\d+)", mesh)}
    if math.prod(sizes.values()) != len(ids):
        raise ValueError(f"a mesh {mesh} in a program of {len(ids)} devices")
    members = [0]
    for name, before, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes):
        count = int(size) if size else sizes[name]
        minor = list(sizes.values())[list(sizes).index(name) + 1 :]
        step = math.prod(minor) * (sizes[name] // (int(before or 1) * count))
        members = [m + k * step for m in members for k in range(count)]
    taken: set[int] = set()
    groups = []
    for first in range(len(ids)):
        if first not in taken:
            places = [first + m for m in members]
            taken.update(places)
            groups.append([ids[p] for p in places])
    return groups


def _closing(text: str, start: int) -> int:
    """The place of the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError(f"unbalanced: {text[:200]}")


def _split(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(c, 0)
        if c == "," and depth == 0:
            yield text[begin:i]
            begin = i + 1
    yield text[begin:]


class Module:
    """A parsed HLO module."""

    def __init__(self, text: str, devices: int | None = None):
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        text = re.sub(r"/\*.*?\*/", "", text)
        counted = re.search(r"num_partitions=(\d+)", text)
        replicas = re.search(r"replica_count=(\d+)", text)
        found = int(counted[1]) if counted else int(replicas[1]) if replicas else 1
        self.devices = devices or found
        current: Computation | None = None
        for line in text.splitlines():
            if match := INSTRUCTION.match(line):
                if current is not None:
                    self._add(current, line[match.end() :], match[2], match[1] is not None)
            elif (
                line.rstrip().endswith("{") and not line.startswith(" ") and "HloModule" not in line
            ):
                name = re.match(r"(ENTRY )?%?([\w.\-]+)", line)
                assert name, line
                current = self.computations[name[2]] = Computation()
                if name[1]:
                    self.entry = name[2]
        for computation in self.computations.values():
            for op in computation.instructions.values():
                if op.opcode == "while":
                    for key in ("body", "condition"):
                        self.computations[op.computation(key) or ""].caller = (computation, op)

    @staticmethod
    def _add(computation: Computation, rest: str, name: str, root: bool) -> None:
        end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
        kind, rest = rest[:end], rest[end:].lstrip()
        open_at = rest.index("(")
        close = _closing(rest, open_at)
        raw = rest[open_at + 1 : close]
        opcode = rest[:open_at].strip()
        literal = opcode in ("constant", "parameter", "iota")
        operands = [] if literal else [o.split()[-1].lstrip("%") for o in _split(raw) if o.split()]
        computation.instructions[name] = Instruction(
            name, kind, opcode, operands, raw, rest[close + 1 :]
        )
        if root:
            computation.root = name

    # ---- scalars that are known before the program runs ----

    def _origin(
        self, where: Computation, op: Instruction
    ) -> tuple[Computation, Instruction] | None:
        """What a loop's constant state was before the loop; None for what changes or comes from outside."""
        if op.opcode != "get-tuple-element" or where.caller is None:
            return None
        source = where.instructions[op.operands[0]]
        if source.opcode != "parameter":
            return None
        outer, loop = where.caller
        index = int(re.search(r"index=(\d+)", op.attributes)[1])  # type: ignore[index]
        body = self.computations[loop.computation("body") or ""]
        returned = body.instructions[body.root]
        if returned.opcode != "tuple":
            return None
        kept = body.instructions[returned.operands[index]]
        while kept.opcode in ("copy", "bitcast"):
            kept = body.instructions[kept.operands[0]]
        same = (
            kept.opcode == "get-tuple-element" and f"index={index}" in kept.attributes.split(",")[1]
        )
        if not same or body.instructions[kept.operands[0]].opcode != "parameter":
            return None
        return self._initial(outer, loop, index)

    @staticmethod
    def _initial(
        outer: Computation, loop: Instruction, index: int
    ) -> tuple[Computation, Instruction] | None:
        state = outer.instructions[loop.operands[0]]
        if state.opcode != "tuple":
            return None
        return outer, outer.instructions[state.operands[index]]

    def value(self, where: Computation, op: Instruction, device: int) -> list[int] | None:
        """The elements of a small integer, on this device; None when it depends on anything else."""
        if (before := self._origin(where, op)) is not None:
            return self.value(*before, device)
        if op.opcode == "constant":
            words = re.findall(r"-?\d+|true|false", op.raw)
            return [int(w) if w[-1] != "e" else int(w == "true") for w in words]
        if op.opcode == "partition-id":
            return [device]
        if op.opcode == "replica-id":
            return [0]
        if op.opcode == "iota" and len(type_dims(op.type)) == 1:
            return list(range(type_dims(op.type)[0]))
        inputs = []
        for name in op.operands:
            v = self.value(where, where.instructions[name], device)
            if v is None:
                return None
            inputs.append(v)
        return self._apply(op, inputs)

    @staticmethod
    def _apply(op: Instruction, inputs: list[list[int]]) -> list[int] | None:
        size = 1
        for d in type_dims(op.type):
            size *= d
        match op.opcode:
            case "reshape" | "convert" | "copy" | "bitcast":
                return inputs[0]
            case "broadcast" if len(inputs[0]) == 1:
                return inputs[0] * size
            case "dynamic-slice" if len(inputs) == 2:
                start = max(0, min(inputs[1][0], len(inputs[0]) - size))
                return inputs[0][start : start + size]
            case "slice" if size == 1:
                begin = re.search(r"slice=\{\[(\d+)", op.attributes)
                return [inputs[0][int(begin[1])]] if begin else None
            case "select":
                return [b if a else c for a, b, c in zip(*inputs, strict=True)]
            case "clamp":
                return [max(a, min(b, c)) for a, b, c in zip(*inputs, strict=True)]
        binary: dict[str, Callable[[int, int], int]] = {
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "divide": lambda a, b: int(a / b) if b else 0,
            "remainder": lambda a, b: a - b * int(a / b) if b else 0,
            "minimum": min,
            "maximum": max,
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
        }
        if op.opcode == "compare":
            order = re.search(r"direction=(\w+)", op.attributes)
            tests: dict[str, Callable[[int, int], bool]] = {
                "LT": lambda a, b: a < b,
                "LE": lambda a, b: a <= b,
                "GT": lambda a, b: a > b,
                "GE": lambda a, b: a >= b,
                "EQ": lambda a, b: a == b,
                "NE": lambda a, b: a != b,
            }
            if order:
                binary["compare"] = lambda a, b: int(tests[order[1]](a, b))
        if op.opcode in binary and len(inputs) == 2:
            return [binary[op.opcode](a, b) for a, b in zip(*inputs, strict=True)]
        return None

    # ---- loops ----

    def trips(self, where: Computation, loop: Instruction) -> float:
        """Of a counted loop how often its body runs; 1 where that depends on data."""
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', loop.attributes)
        if known:
            return int(known[1])
        condition = self.computations[loop.computation("condition") or ""]
        body = self.computations[loop.computation("body") or ""]
        test = condition.instructions[condition.root]
        order = re.search(r"direction=(LT|LE)", test.attributes)
        if test.opcode != "compare" or not order:
            return 1
        counter, limit = (condition.instructions[n] for n in test.operands)
        bound = self.value(condition, limit, 0)
        if counter.opcode != "get-tuple-element" or bound is None:
            return 1
        index = int(re.search(r"index=(\d+)", counter.attributes)[1])  # type: ignore[index]
        start = self._initial(where, loop, index)
        returned = body.instructions[body.root]
        if start is None or returned.opcode != "tuple":
            return 1
        first = self.value(*start, 0)
        step = self._step(body, body.instructions[returned.operands[index]])
        if first is None or step is None or step <= 0:
            return 1
        last = bound[0] + (order[1] == "LE")
        return max(0, -(-(last - first[0]) // step))

    def _step(self, body: Computation, update: Instruction) -> int | None:
        while update.opcode in ("copy", "bitcast", "reshape"):
            update = body.instructions[update.operands[0]]
        if update.opcode != "add":
            return None
        for name in update.operands:
            v = self.value(body, body.instructions[name], 0)
            if v is not None:
                return v[0]
        return None

    # ---- collectives ----

    def count(self) -> Count:
        return Count(self._walk(self.entry, 1.0))

    def _walk(self, name: str, trips: float) -> list[Collective]:
        where = self.computations[name]
        found: list[Collective] = []
        for op in where.instructions.values():
            if op.opcode == "while":
                inner = trips * self.trips(where, op)
                found += self._walk(op.computation("body") or "", inner)
                found += self._walk(op.computation("condition") or "", inner)
            elif op.opcode == "conditional":
                names = re.search(r"branch_computations=\{([^}]*)\}", op.attributes)
                branches = (
                    [n.strip().lstrip("%") for n in names[1].split(",")]
                    if names
                    else [
                        op.computation(k) or "" for k in ("true_computation", "false_computation")
                    ]
                )
                walked: list[list[Collective]] = [self._walk(b, trips) for b in branches]
                found += walked[max(range(len(walked)), key=lambda i: Count(walked[i]).bytes)]
            elif op.opcode in ("call", "fusion", "async-start"):
                callee = op.computation("to_apply") or op.computation("calls")
                found += self._walk(callee or "", trips) if callee else []
            elif op.opcode.removesuffix("-start") in KINDS:
                collective = self._collective(where, op)
                if collective is not None:
                    collective.trips = trips
                    collective.loop = name if name != self.entry else ""
                    ring = re.search(r'shardway\.ring="?(\d+)', op.attributes)
                    collective.ring = ring[1] if ring else ""
                    found.append(collective)
        return found

    def _collective(self, where: Computation, op: Instruction) -> Collective | None:
        kind = op.opcode.removesuffix("-start")
        operand = sum(type_bytes(where.instructions[n].type) for n in op.operands)
        if kind == "collective-permute":
            pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", op.attributes)
            moved = [
                p
                for p in re.findall(r"\{(\d+),(\d+)", pairs[1] + "}" if pairs else "")
                if p[0] != p[1]
            ]
            return Collective(kind, op.type, 2, operand, 1) if moved else None
        groups = op.groups(self.devices)
        n = max(len(g) for g in groups)
        if n == 1:
            return None
        share = (n - 1) / n
        if kind == "all-reduce":
            parts = min(self.shards_taken(where, op, g) for g in groups if len(g) == n)
            if parts > 1:
                left = n // parts
                sent = operand * (parts - 1) / parts + 2 * operand / parts * (left - 1) / left
                return Collective("reduce-scatter", op.type, n, sent, 1)
            return Collective(kind, op.type, n, 2 * share * operand, 1)
        if kind == "all-gather":
            return Collective(kind, op.type, n, share * type_bytes(op.type), 1)
        if kind == "collective-broadcast":
            return Collective(kind, op.type, n, operand, 1)
        return Collective(kind, op.type, n, share * operand, 1)

    def shards_taken(self, where: Computation, op: Instruction, group: list[int]) -> int:
        """Into how many equal parts the uses of this all-reduce cut it, each device taking its own; 1: none."""
        if len(op.operands) != 1:
            return 1
        slices: list[Instruction] = []
        todo, before = [op], type_bytes(op.type)
        while todo:
            source = todo.pop()
            uses = where.users(source.name)
            if not uses or source.name == where.root:
                return 1
            for use in uses:
                if use.opcode == "dynamic-slice" and use.operands[0] == source.name:
                    slices.append(use)
                elif use.opcode in SHAPELESS and use.operands[0] == source.name:
                    todo.append(use)
                else:
                    return 1
        parts = 0
        for cut in slices:
            offsets: Counter[tuple[int, ...]] = Counter()
            for device in group:
                place = [self.value(where, where.instructions[n], device) for n in cut.operands[1:]]
                if any(p is None for p in place):
                    return 1
                offsets[tuple(p[0] for p in place if p is not None)] += 1
            here = len(offsets)
            if len(set(offsets.values())) != 1 or type_bytes(cut.type) * (here - 1) > before:
                return 1
            parts = min(parts, here) if parts else here
        return max(parts, 1)


def count(text: str, devices: int | None = None) -> Count:
    """The collectives of an HLO module's text."""
    return Module(text, devices).count()
