"""Explanations as a page: one file, without scripts or anything fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from shardway.explanation import Explanation, Operator, in_bytes

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
h2 { margin: 1.6em 0 .3em; font-size: 1.25em; }
table { border-collapse: collapse; width: 100%; margin: .6em 0; }
th, td { text-align: left; vertical-align: top; padding: .25em .6em; border-bottom: 1px solid #e3e3e3; }
th { font-weight: 600; background: #f6f6f6; }
code { font: 12.5px ui-monospace, monospace; }
td.number { text-align: right; white-space: nowrap; }
.why, .where { color: #666; font-size: .92em; }
summary { cursor: pointer; margin: .6em 0; }
"""


def _operator(op: Operator) -> str:
    indent = f' style="padding-left:{0.6 + 1.4 * op.depth}em"'
    values = "".join(
        f"<div><code>{escape(v.type)} {escape(v.sharding)}</code>"
        f' <span class="where">shard <code>{escape(v.shard)}</code></span></div>'
        + "".join(f'<div class="why">{escape(str(reason))}</div>' for reason in v.reasons)
        for v in op.values
    )
    where = escape(str(op.where)) if op.where.file else ""
    return (
        f"<tr><td{indent}>{escape(op.name or op.operator)}</td><td>{values}</td>"
        f'<td class="where">{where}</td></tr>'
    )


def section(program: Explanation) -> str:
    """One program, as a part of a page."""
    axes = ", ".join(f"{escape(name)}={size}" for name, size in program.mesh.items())
    collectives = "".join(
        f"<tr><td><code>{escape(str(c))}</code></td>"
        f'<td class="number">{in_bytes(c.bytes)}</td>'
        f'<td class="number">{"?" if c.times is None else f"{c.times:g}"}</td>'
        f'<td class="why">{escape(c.cause)}</td><td class="where">{escape(str(c.where))}</td></tr>'
        for c in program.collectives
    )
    table = (
        "<table><tr><th>collective</th><th>bytes</th><th>times</th><th>cause</th><th>line</th></tr>"
        f"{collectives}</table>"
        if program.collectives
        else "<p>No collectives.</p>"
    )
    return (
        f"<h2>{escape(program.name)}</h2>"
        f"<p>{program.devices} devices, mesh {axes or '-'};"
        f" {len(program.collectives)} collectives, {in_bytes(program.bytes)} sent per device</p>"
        f"{table}<details><summary>{len(program.operators)} operators</summary>"
        "<table><tr><th>operator</th><th>sharding, and who decided it</th><th>line</th></tr>"
        f"{''.join(_operator(op) for op in program.operators)}</table></details>"
    )


def page(programs: Sequence[Explanation]) -> str:
    """A whole page, self-contained."""
    body = "".join(section(p) for p in programs) or "<p>No program for several devices.</p>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Shardway: partitioned programs</title><style>{STYLE}</style></head>"
        f"<body><h1>Partitioned programs</h1>{body}</body></html>\n"
    )
