"""Damaged artifacts, beside jaxlib: what our reader and verifier take, jaxlib's parser and verifier take.

The C++ tests show that no damage crashes us; this one, that what we accept is StableHLO. Two kinds of
damage: any, to any artifact, and one number more or less in those with reducers, where a type is a
number. jaxlib knows more rules than we need, so that of a million damaged artifacts it will refuse some
that we take: the seed is fixed. SHARDWAY_FUZZ_SEED and SHARDWAY_FUZZ_RUNS make longer hunts.
"""

import functools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOOL = Path(os.environ.get("SHARDWAY_IR_TEXT", HERE.parent / "build/shardway/ir/shardway-ir-text"))
SEED = int(os.environ.get("SHARDWAY_FUZZ_SEED", "1"))
RUNS = int(os.environ.get("SHARDWAY_FUZZ_RUNS", "2000"))
REDUCERS = ("psum@1.17.0", "scatter-batched@1.17.0", "sort-pairs@1.17.0", "twin-mlp_grads@1.17.0")

# In a process of its own: jaxlib's Python binding aborts where an error message is not UTF-8.
PARSE = """
import sys
from pathlib import Path
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

with mlir.make_ir_context():
    for path in sorted(Path(sys.argv[1]).glob("*.mlir")):
        print(path.name, end=": ", flush=True)
        try:
            ir.Module.parse(path.read_text(encoding="ascii")).operation.verify()
            print("ok", flush=True)
        except Exception as error:
            lines = str(error).splitlines()
            print(next((line for line in lines if "error" in line), lines[0]), flush=True)
"""

# Which algorithms some hardware has is jaxlib's own knowledge, and a matter of the compiler behind us.
BEYOND_FORM = ("dot algorithm not known to be supported on any hardware",)


def damage(artifact: bytearray, corpus: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(artifact))
    piece = bytes(artifact[at : at + rng.randrange(1, 24)])
    other = rng.choice(corpus)
    start = rng.randrange(len(other))
    match rng.randrange(7):
        case 0:
            artifact[at] ^= 1 << rng.randrange(8)
        case 1:
            artifact[at] = rng.randrange(256)
        case 2:  # extremes, and the first bytes of numbers
            artifact[at] = rng.choice(b"\x00\x01\x03\x05\x07\x09\x7f\x80\xfe\xff")
        case 3:  # a number more or less
            artifact[at] = (artifact[at] + rng.choice((2, -2))) % 256
        case 4:
            to = rng.randrange(len(artifact))
            artifact[to : to + len(piece)] = piece
        case 5:
            del artifact[at : at + rng.randrange(1, 8)]
        case _:
            other_piece = other[start : start + rng.randrange(1, 64)]
            artifact[at : at + len(other_piece)] = other_piece


@functools.cache
def sound() -> dict[str, bytes]:
    """The artifacts that are damaged, by name."""
    return {path.stem: path.read_bytes() for path in sorted((HERE / "data/artifacts").glob("*.bc"))}


def any_damage(rng: random.Random) -> bytes:
    corpus = list(sound().values())
    artifact = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        damage(artifact, corpus, rng)
    return bytes(artifact)


def another_number(rng: random.Random) -> bytes:
    """Numbers below 64 are one byte, twice the number and one more."""
    artifact = bytearray(sound()[rng.choice(REDUCERS)])
    at = rng.choice([i for i, byte in enumerate(artifact) if byte % 2 == 1 and byte < 128])
    artifact[at] = (artifact[at] + 2 * rng.choice((-3, -2, -1, 1, 2, 3))) % 128
    return bytes(artifact)


@pytest.mark.parametrize("make", [any_damage, another_number])
def test_what_we_accept_jaxlib_accepts(
    make: Callable[[random.Random], bytes], tmp_path: Path
) -> None:
    print("SHARDWAY_FUZZ_SEED", SEED)
    rng = random.Random(SEED)
    files = []
    for i in range(RUNS):
        files.append(tmp_path / f"{i:05}.bc")
        files[-1].write_bytes(make(rng))
    read = subprocess.run(
        [TOOL, "--verify", *files], stderr=subprocess.DEVNULL, timeout=300, check=False
    )
    assert read.returncode == 1, "errors, and no crash"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "SHARDWAY_"))}
    parsed = subprocess.run(
        [sys.executable, "-c", PARSE, str(tmp_path)],
        env=environment | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = parsed.stdout.splitlines()
    assert parsed.returncode == 0, (lines[-1:], parsed.stderr[-2000:])
    refused = [
        line
        for line in lines
        if not line.endswith(": ok") and not any(known in line for known in BEYOND_FORM)
    ]
    assert refused == []
    assert RUNS / 50 < len(lines) < RUNS, "damage that is noticed, and damage that is not"
