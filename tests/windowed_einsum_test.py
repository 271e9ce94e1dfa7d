"""Windowed einsums: on a cluster against one device, and without the runtime against JAX."""

from __future__ import annotations

from typing import Any

from own_process import outcome_of

DEADLINE_S = 280
# On two islands of four devices; rings over y have two hops one way, one the other.
HOPS = {
    "free": 3,
    "contracting": 3,
    "scattered": 3,
    "integers": 3,
    "narrow": 3,
    "with_data_parallelism": 3,
    "several_dots": 3,
    "scan_of_layers": 3,
    "branches": 6,
    "uneven_free": 3,
    "uneven_contracting": 3,
    "uneven_both": 3,
    "gathered_batch": 3,
    "masked": 3,
    "padded_scatter": 3,
    "scattered_batch": 3,
}


def on_cluster(when: str, *names: str, devices: int = 4) -> dict[str, Any]:
    outcome: dict[str, Any] = outcome_of(
        "windowed_einsum_programs.py",
        *names,
        deadline_s=DEADLINE_S,
        SHARDWAY_WINDOWED_EINSUM=when,
        JAX_PLATFORMS="shardway,cpu",
        SHARDWAY_ISLANDS="2",
        SHARDWAY_HOSTS="1",
        SHARDWAY_DEVICES=str(devices),
    )
    wrong = {name: found["error"] for name, found in outcome.items() if found["error"]}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
    return outcome


def test_rings_on_a_cluster_equal_one_device_and_send_as_much_as_what_they_replace() -> None:
    always, never = on_cluster("always"), on_cluster("never")
    hops = {name: found["hops"] for name, found in always.items()}
    assert {name: hops[name] for name in HOPS} == HOPS
    assert {name: found["bytes"] for name, found in always.items()} == {
        name: found["bytes"] for name, found in never.items()
    }
    assert not any(found["hops"] for found in never.values())


def test_many_devices_go_round_in_a_loop() -> None:
    names = ("free", "contracting", "scattered", "uneven_both")
    outcome = on_cluster("always", *names, devices=16)
    # A ring of 16: what is written of it are the first hops, the loop's, and the last ones.
    assert all(0 < outcome[name]["hops"] <= 5 for name in names), outcome
