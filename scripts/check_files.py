"""Checks what every tracked file must have, whatever its language: clean whitespace, a final newline,
a reasonable size, no unfinished work; and that the licence is where it should be.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_BYTES = 1 << 20
BINARY = {".bc", ".png"}
SOURCE = {".cc", ".h", ".proto", ".py", ".sh", ".cmake"}
TABS_BELONG = {"Makefile"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
MAX_LINE = 100  # of sources; ruff and clang-format hold the others' to it


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, timeout=60
    ).stdout
    paths = [ROOT / name.decode() for name in names.split(b"\0") if name]
    return [p for p in paths if p.is_file()]


def line_problems(path: Path, text: str) -> Iterator[tuple[int, str]]:
    source = path.suffix in SOURCE and path.name != Path(__file__).name
    for number, line in enumerate(text.splitlines(), 1):
        if line != line.rstrip():
            yield number, "whitespace at the end of the line"
        if "\t" in line and path.name not in TABS_BELONG and path.suffix != ".tsv":
            yield number, "a tab"
        if source and UNFINISHED.search(line):
            yield number, "unfinished work"
        if path.suffix == ".proto" and len(line) > MAX_LINE:
            yield number, f"longer than {MAX_LINE} characters"


def problems(path: Path) -> Iterator[str]:
    where = path.relative_to(ROOT)
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        yield f"{where}: {len(data)} bytes; the most is {MAX_BYTES}"
    if path.suffix in BINARY:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield f"{where}: not UTF-8 ({error})"
        return
    if text and not text.endswith("\n"):
        yield f"{where}: no newline at the end"
    if text.endswith("\n\n"):
        yield f"{where}: empty lines at the end"
    if "\r" in text:
        yield f"{where}: carriage returns"
    for number, what in line_problems(path, text):
        yield f"{where}:{number}: {what}"


def licence_problems() -> Iterator[str]:
    licence = ROOT / "LICENSE"
    if not licence.exists() or "Apache License" not in licence.read_text()[:400]:
        yield "LICENSE: must be the Apache License, Version 2.0"
    if 'license = { text = "Apache-2.0" }' not in (ROOT / "pyproject.toml").read_text():
        yield "pyproject.toml: must name the licence Apache-2.0"


def main() -> int:
    found = [*licence_problems(), *(what for path in tracked() for what in problems(path))]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
