"""Runs clang-tidy over the C++ sources, the last changed ones first, for as long as there is time.

usage: clang_tidy.py BUILD_DIRECTORY [--seconds N] [FILE...]

The build directory holds compile_commands.json and the generated headers. A file that passed is not
looked at again until it, a header of the project, the checks or the compile commands change.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PER_FILE_S = 120


def sources(build: Path) -> dict[Path, str]:
    """Our compiled files, last changed first, each with its compile command."""
    commands = json.loads((build / "compile_commands.json").read_text())
    ours = {Path(c["file"]): c["command"] for c in commands}
    log = subprocess.run(
        ["git", "log", "--format=", "--name-only", "--", "*.cc"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    newest = list(dict.fromkeys(ROOT / line for line in log.splitlines() if line))
    return {p: ours[p] for p in newest if p in ours and p.is_file()}


def common_state() -> bytes:
    """What every file's result depends on besides itself: the checks and all headers."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in sorted((ROOT / "shardway").rglob("*.h")):
        digest.update(header.read_bytes())
    return digest.digest()


def check(path: Path, build: Path) -> tuple[bool, str]:
    command = [
        "clang-tidy",
        "-p",
        str(build),
        "--quiet",
        "--extra-arg=-Wthread-safety",
        "--extra-arg=-Wno-unknown-warning-option",
        str(path),
    ]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PER_FILE_S)
    except subprocess.TimeoutExpired:
        return True, f"{path.relative_to(ROOT)}: clang-tidy took over {PER_FILE_S} s; left out\n"
    if "[clang-diagnostic-error]" in done.stdout:
        # Debian's clang 14 can't read all of the C++20 that GCC 12 compiles.
        return True, f"{path.relative_to(ROOT)}: clang can't compile it; left out\n"
    ok = done.returncode == 0
    return ok, done.stdout if ok else done.stdout + done.stderr  # stderr only counts warnings


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=300, help="start no file after this long")
    parser.add_argument("files", type=Path, nargs="*")
    args = parser.parse_args()

    every = sources(args.build)
    wanted = [p.resolve() for p in args.files] or list(every)
    common = common_state()
    passed = args.build / "clang-tidy-passed"
    passed.mkdir(exist_ok=True)

    def mark(path: Path) -> Path:
        state = common + every.get(path, "").encode() + path.read_bytes()
        return passed / hashlib.sha256(state).hexdigest()

    todo = [p for p in wanted if not mark(p).exists()]
    until = time.monotonic() + args.seconds
    failed, skipped = 0, 0

    def one(path: Path) -> tuple[bool, str] | None:
        return check(path, args.build) if time.monotonic() < until else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, result in zip(todo, pool.map(one, todo), strict=True):
            if result is None:
                skipped += 1
                continue
            ok, output = result
            if output:
                print(output, end="", flush=True)
            if ok:
                mark(path).touch()
            failed += not ok
    print(
        f"clang-tidy: {len(wanted)} files, {len(wanted) - len(todo)} unchanged since they passed, "
        f"{failed} failed, {skipped} left out when the time was up"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
