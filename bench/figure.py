"""Draws what bench/dispatch.py measured: one panel for each mode, rates against devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from programs import MODES

TITLES = {"opbyop": "OpByOp", "fused": "Fused (128 in one call)", "fused_loop": "Fused loop (128)"}
STYLES: dict[str, dict[str, Any]] = {
    "shardway": {"label": "Shardway, 1 host x N devices", "color": "tab:red", "marker": "o"},
    "shardway_hosts": {
        "label": "Shardway, N hosts x 1 device",
        "color": "tab:orange",
        "marker": "s",
    },
    "jax_gloo": {"label": "multi-controller JAX, Gloo", "color": "tab:blue", "marker": "^"},
    "jax_mpi": {"label": "multi-controller JAX, MPI", "color": "tab:cyan", "marker": "v"},
    "jax_single": {"label": "JAX, one process", "color": "tab:purple", "marker": "D"},
    "ray": {"label": "Ray actors", "color": "tab:green", "marker": "x"},
    "bare": {"label": "bare loop (no runtime)", "color": "0.5", "marker": ".", "linestyle": "--"},
    "bare_no_spin": {
        "label": "bare loop, not spinning",
        "color": "0.7",
        "marker": ".",
        "linestyle": ":",
    },
}


def draw(result: dict[str, Any], path: Path) -> None:
    modes = [m for m in MODES if m in result]
    fig, axes = plt.subplots(1, len(modes), figsize=(5 * len(modes), 4.2), squeeze=False)
    for ax, mode in zip(axes[0], modes, strict=True):
        for peer, style in STYLES.items():
            points = [(int(n), r[peer]) for n, r in result[mode].items() if r.get(peer)]
            if points:
                ax.plot(*zip(*points, strict=True), **style)
        counts = [int(n) for n in result[mode]]
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(counts, [str(n) for n in counts])
        ax.set_title(TITLES[mode])
        ax.set_xlabel("devices")
        ax.grid(True, which="major", alpha=0.3)
    axes[0][0].set_ylabel("computations/s")
    handles = {h.get_label(): h for ax in axes[0] for h in ax.get_lines()}
    fig.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False)
    fig.tight_layout(rect=(0, 0.12, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)
    plt.close(fig)
