"""Checks the include graph: a folder of shardway/ includes only what shardway/layers.txt allows it.

The file has one line for each layer: `name: the layers it may include`, and itself goes without
saying. Tests beside the code (`*_test.cc`) may reach further: nobody includes them. The graph must have
no cycle and every folder must be in it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"shardway/([^/"]+)/[^"]*"')


def read_layers(text: str) -> dict[str, list[str]]:
    """The graph: layer -> the layers it may include."""
    layers: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, allowed = line.partition(":")
        layers[name.strip()] = allowed.split()
    return layers


def graph_problems(layers: dict[str, list[str]]) -> Iterator[str]:
    """A layer may include only layers of earlier lines: so the graph has no cycle."""
    seen: set[str] = set()
    for name, allowed in layers.items():
        for other in allowed:
            if other not in seen:
                yield f"shardway/layers.txt: {name} may include {other}, which is not above it"
        seen.add(name)


def include_problems(root: Path, layers: dict[str, list[str]]) -> Iterator[str]:
    sources = sorted(p for p in (root / "shardway").rglob("*") if p.suffix in {".h", ".cc"})
    for path in sources:
        where = path.relative_to(root)
        layer = where.parts[1]
        if layer not in layers:
            yield f"{where}: the folder {layer} is not in shardway/layers.txt"
            continue
        if path.name.endswith("_test.cc"):
            continue
        allowed = {layer, *layers[layer]}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if found and found[1] not in allowed:
                yield f"{where}:{number}: {layer} may not include {found[1]}"


def main() -> int:
    layers = read_layers((ROOT / "shardway" / "layers.txt").read_text())
    problems = [*graph_problems(layers), *include_problems(ROOT, layers)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
