"""StableHLO programs as portable artifacts, the form in which a compiler plugin gets them.

python -m shardway.artifact PROGRAM.mlir ARTIFACT
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STABLEHLO_VERSION = "1.17.0"  # the newest that Shardway's compiler reads


def _serialize(parse: Callable[[Any], Any]) -> bytes:
    from jax._src.interpreters import mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        try:
            module = parse(ir)
        except ir.MLIRError as error:
            raise ValueError(f"no StableHLO program: {error}") from error
        return bytes(_jax.mlir.serialize_portable_artifact(module, STABLEHLO_VERSION, True))


def from_file(path: Path) -> bytes:
    """The artifact of a program in MLIR text (StableHLO, func, sdy). ValueError when it is none."""
    return _serialize(lambda ir: ir.Module.parseFile(str(path)))


def from_lowered(lowered: Any) -> bytes:
    """The artifact of `jax.jit(f).lower(...)`, with the lines of the user's code."""
    operation = lowered.compiler_ir("stablehlo").operation
    text = operation.get_asm(enable_debug_info=True)
    return _serialize(lambda ir: ir.Module.parse(text))


def main() -> int:
    source, target = sys.argv[1:]
    try:
        Path(target).write_bytes(from_file(Path(source)))
    except (OSError, ValueError) as error:
        print(f"{source}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
