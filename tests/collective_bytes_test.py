"""The counter of bench/partitioner.py on programs whose traffic is worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import collective_bytes

SUM = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
"""


def module(body: str, before: str = "", devices: int = 8) -> str:
    return f"HloModule m, num_partitions={devices}\n{SUM}{before}\nENTRY %main (p: f32[64,32]) -> f32[64,32] {{\n{body}\n}}\n"


def whole(body: str, before: str = "") -> tuple[float, float]:
    count = collective_bytes.count(module(body, before))
    return count.bytes, count.number


P0 = "  %p = f32[64,32]{1,0} parameter(0)\n"
OPERAND = 64 * 32 * 4


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f32[64,32]{1,0} all-reduce(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add", 2 * OPERAND * 3 / 4),
        ("f32[64,32]{1,0} all-reduce(%p), replica_groups=[4,2]<=[8], to_apply=%add", 2 * OPERAND / 2),
        ("f32[64,32]{1,0} all-reduce(%p), replica_groups={}, to_apply=%add", 2 * OPERAND * 7 / 8),
        ("f32[512,32]{1,0} all-gather(%p), replica_groups=[1,8]<=[8], dimensions={0}", OPERAND * 7),
        ("f32[8,32]{1,0} reduce-scatter(%p), replica_groups=[1,8]<=[8], to_apply=%add", OPERAND * 7 / 8),
        ("f32[16,128]{1,0} all-to-all(%p), replica_groups=[2,4]<=[8], dimensions={0}", OPERAND * 3 / 4),
        ("f32[64,32]{1,0} collective-permute(%p), source_target_pairs={{0,1},{1,0}}", OPERAND),
    ],
)  # fmt: skip
def test_one_collective(line: str, expected: float) -> None:
    assert whole(f"{P0}  ROOT %r = {line}") == (expected, 1)


def test_whoever_stays_alone_sends_nothing() -> None:
    alone = "all-reduce(%p), replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}, to_apply=%add"
    still = "collective-permute(%p), source_target_pairs={{0,0},{1,1}}"
    for line in (alone, still):
        assert whole(f"{P0}  ROOT %r = f32[64,32]{{1,0}} {line}") == (0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("replica_groups=[2,4]<=[8]", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("replica_groups={{0,2},{1,3}}", [[0, 2], [1, 3]]),
        ("replica_groups=mesh['x'=2,'y'=4] {'x'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("replica_groups=mesh['x'=2,'y'=4] {'y':(2)2}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("replica_groups=mesh['x'=2,'y'=4] {'y':(1)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        (
            "replica_groups=mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'y'}",
            [[0, 4], [1, 5], [2, 6], [3, 7]],
        ),
    ],
)
def test_groups(text: str, expected: list[list[int]]) -> None:
    devices = 4 if "0,2" in text else 8
    assert collective_bytes.parse_groups(text, devices) == expected


def test_element_types_are_the_programs() -> None:
    assert collective_bytes.type_bytes("bf16[8,4]{1,0}") == 64
    assert collective_bytes.type_bytes("(f32[2]{0}, pred[3]{0}, /*index=2*/u4[6]{0})") == 8 + 3 + 3
    assert collective_bytes.type_bytes("c64[]") == 8


def loop(limit: str, start: str, body_line: str) -> tuple[str, str]:
    inner = f"""
%body (s: (s32[], f32[64,32], s32[])) -> (s32[], f32[64,32], s32[]) {{
  %s = (s32[], f32[64,32]{{1,0}}, s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(2)
  %next = s32[] add(%i, %one)
  %x = f32[64,32]{{1,0}} get-tuple-element(%s), index=1
  %y = f32[64,32]{{1,0}} {body_line}
  %n = s32[] get-tuple-element(%s), index=2
  ROOT %t = (s32[], f32[64,32]{{1,0}}, s32[]) tuple(%next, %y, %n)
}}
%cond (s.1: (s32[], f32[64,32], s32[])) -> pred[] {{
  %s.1 = (s32[], f32[64,32]{{1,0}}, s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %end = s32[] {limit}
  ROOT %lt = pred[] compare(%i.1, %end), direction=LT
}}
"""
    outer = f"""{P0}  %zero = s32[] {start}
  %ten = s32[] constant(10)
  %init = (s32[], f32[64,32]{{1,0}}, s32[]) tuple(%zero, %p, %ten)
  %w = (s32[], f32[64,32]{{1,0}}, s32[]) while(%init), condition=%cond, body=%body
  ROOT %r = f32[64,32]{{1,0}} get-tuple-element(%w), index=1"""
    return inner, outer


ROLL = "collective-permute(%x), source_target_pairs={{0,1},{1,0}}"


@pytest.mark.parametrize("limit", ["constant(10)", "get-tuple-element(%s.1), index=2"])
@pytest.mark.parametrize(("start", "trips"), [("constant(0)", 5), ("constant(3)", 4)])
def test_loops_count_their_trips(limit: str, start: str, trips: int) -> None:
    inner, outer = loop(limit, start, ROLL)
    assert whole(outer, inner) == (trips * OPERAND, trips)


def test_a_loop_that_depends_on_data_counts_once() -> None:
    inner, outer = loop("constant(10)", "convert(%p)", ROLL)
    assert whole(outer, inner) == (OPERAND, 1)


def test_hops_of_a_windowed_einsum_are_one_collective() -> None:
    hop = ROLL + ', frontend_attributes={shardway.ring="3"}'
    inner, outer = loop("constant(10)", "constant(0)", hop)
    first = hop.replace("%x", "%p")
    body = outer.replace("tuple(%zero, %p,", "tuple(%zero, %first,")
    body = body.replace("  %zero", f"  %first = f32[64,32]{{1,0}} {first}\n  %zero", 1)
    assert whole(body, inner) == (6 * OPERAND, 1)
    # In a loop of the program's it is one each time; and so is another ring.
    inner, outer = loop("constant(10)", "constant(0)", hop)
    assert whole(outer, inner) == (5 * OPERAND, 5)
    other = f"{P0}  %a = f32[64,32]{{1,0}} {first}\n  ROOT %r = f32[64,32]{{1,0}} {first.replace('3', '4')}"
    assert whole(other)[1] == 2


def sliced(offset: str, rows: int, more: str = "") -> str:
    return f"""{P0}  %sum = f32[64,32]{{1,0}} all-reduce(%p), replica_groups={{{{0,1,2,3}},{{4,5,6,7}}}}, to_apply=%add
  %id = u32[] partition-id()
  %table = s32[8]{{0}} constant({{{offset}}})
  %at = s32[1]{{0}} dynamic-slice(%table, %id), dynamic_slice_sizes={{1}}
  %row = s32[] reshape(%at)
  %zero = s32[] constant(0){more}
  ROOT %r = f32[{rows},32]{{1,0}} dynamic-slice(%sum, %row, %zero), dynamic_slice_sizes={{{rows},32}}"""


OWN = "0, 16, 32, 48, 0, 16, 32, 48"


def test_an_all_reduce_of_which_each_keeps_its_shard_is_a_reduce_scatter() -> None:
    assert whole(sliced(OWN, 16)) == (OPERAND * 3 / 4, 1)


def test_a_slice_over_half_of_the_group_leaves_a_smaller_all_reduce() -> None:
    halves = whole(sliced("0, 0, 32, 32, 0, 0, 32, 32", 32))
    assert halves == (OPERAND / 2 + 2 * (OPERAND / 2) / 2, 1)


@pytest.mark.parametrize(
    "body",
    [
        sliced("0, 0, 0, 0, 32, 32, 32, 32", 32),  # the same for the whole group
        sliced(OWN, 32),  # more than the own shard
        sliced("0, 16, 32, 32, 0, 16, 32, 32", 16),  # not everybody another
        sliced(OWN, 16, "\n  %also = f32[64,32]{1,0} negate(%sum)"),  # another use of the whole
    ],
)
def test_other_slices_leave_an_all_reduce(body: str) -> None:
    assert whole(body) == (2 * OPERAND * 3 / 4, 1)


def test_of_branches_the_dearest_counts() -> None:
    branches = """
%send (a.1: f32[64,32]) -> f32[64,32] {
  %a.1 = f32[64,32]{1,0} parameter(0)
  ROOT %c = f32[64,32]{1,0} collective-permute(%a.1), source_target_pairs={{0,1}}
}
%keep (a.2: f32[64,32]) -> f32[64,32] {
  %a.2 = f32[64,32]{1,0} parameter(0)
  ROOT %n = f32[64,32]{1,0} negate(%a.2)
}
"""
    body = f"""{P0}  %k = s32[] constant(0)
  ROOT %r = f32[64,32]{{1,0}} conditional(%k, %p, %p), branch_computations={{%keep, %send}}"""
    assert whole(body, branches) == (OPERAND, 1)
