"""Compares two JUnit reports of the same tests: what passes in the first must pass in the second.

usage: jax_suite_diff.py REFERENCE.xml OURS.xml KNOWN_DIFFERENCES.txt
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def read_report(path: str) -> dict[str, tuple[str, str]]:
    """Test -> (passed, skipped or failed; the first line of why)."""
    results = {}
    for case in ET.parse(path).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '::')}::{case.get('name')}"
        outcome, message = "passed", ""
        for kind in ("skipped", "failure", "error"):
            found = case.find(kind)
            if found is not None:
                outcome = "skipped" if kind == "skipped" else "failed"
                message = next(iter((found.get("message") or "").splitlines()), "")
        results[name] = (outcome, message)
    return results


def read_known(path: str) -> dict[str, str]:
    lines = [line for line in Path(path).read_text().splitlines() if line and line[0] != "#"]
    split = [line.partition(": ") for line in lines]
    return {test: reason for test, _, reason in split}


def main() -> int:
    reference, ours = read_report(sys.argv[1]), read_report(sys.argv[2])
    known = read_known(sys.argv[3])
    worse = {
        test: ours.get(test, ("missing", ""))
        for test, (outcome, _) in reference.items()
        if outcome == "passed" and ours.get(test, ("missing", ""))[0] != "passed"
    }
    for test, (outcome, message) in sorted(worse.items()):
        print(f"{test}: {outcome}: {known.get(test) or message[:200]}")
    for title, report in (("reference", reference), ("ours", ours)):
        counts = Counter(outcome for outcome, _ in report.values())
        print(f"{title}: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    unexplained = [test for test in worse if test not in known]
    print(f"{len(worse)} differences, {len(unexplained)} of them without a known reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
