"""What JAX does not write itself, but other front ends may: Shardy's and XLA's notations in full.

Each program is text. It is partitioned by `shardway-compile --native` and runs on JAX's CPU backend, every
device with the shards that the described boundary gives it (see spmd_oracle.py).

    python spmd_notation_programs.py      prints one JSON object of name → error or ""
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
from spmd_oracle import Boundary, compiler, run

from shardway import artifact

Function = Callable[..., np.ndarray]
RNG = np.random.default_rng(3)


def check(text: str, n: int, reference: Function, *shapes: tuple[int, ...]) -> str:
    """Asserts that the program for n devices computes `reference`; returns the per-device text."""
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "program.mlir", Path(directory) / "program.mlirbc"
        source.write_text(text)
        target.write_bytes(artifact.from_file(source))
        command = [compiler(), str(target), "--partitions", str(n), "--native", "--poison-padding"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    program, _, comments = done.stdout.partition("// ----\n")
    lines = comments.split("\n")
    parameters = [Boundary(line, n) for line in lines if line.startswith("// parameter")]
    (result,) = (Boundary(line, n) for line in lines if line.startswith("// result"))
    arguments = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    shards = [p.split(a) for p, a in zip(parameters, arguments, strict=True)]
    whole = result.join(run(program, shards, n)[0])
    np.testing.assert_allclose(whole, reference(*arguments), rtol=1e-5, atol=1e-5)
    return done.stdout


def matmul(a_sharding: str, b_sharding: str, out_sharding: str, meshes: str, size: int = 24) -> str:
    matrix = f"tensor<{size}x{size}xf32>"
    return f"""
    module @m {{
      {meshes}
      func.func public @main(%a: {matrix} {{{a_sharding}}}, %b: {matrix} {{{b_sharding}}})
          -> ({matrix} {{{out_sharding}}}) {{
        %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}
        %1 = stablehlo.tanh %0 : {matrix}
        return %1 : {matrix}
      }}
    }}"""


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.tanh(a @ b)


SQUARE = (24, 24)
ORDERED = """
  sdy.mesh @plain = <["x"=2, "y"=4]>
  sdy.mesh @mixed = <["a"=2, "b"=4], device_ids=[1, 0, 2, 3, 4, 5, 7, 6]>
  sdy.mesh @transposed = <["c"=4, "d"=2], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>"""


def sdy(mesh: str, dims: str) -> str:
    return f"sdy.sharding = #sdy.sharding<@{mesh}, [{dims}]>"


def orders_of_devices() -> None:
    for a, b, out in (
        (sdy("mixed", '{"a"}, {"b"}'), sdy("plain", '{"x"}, {"y"}'), sdy("plain", '{"y"}, {"x"}')),
        (sdy("plain", '{"x"}, {}'), sdy("mixed", '{}, {"b"}'), sdy("mixed", '{"b"}, {"a"}')),
        (sdy("mixed", '{"b"}, {}'), sdy("transposed", '{"d"}, {"c"}'), sdy("mixed", '{"a"}, {}')),
    ):
        text = check(matmul(a, b, out, ORDERED), 8, product, SQUARE, SQUARE)
        assert "collective_permute" in text


def transposed_orders_need_no_permute() -> None:
    same = sdy("transposed", '{"d"}, {"c"}')
    assert "collective_permute" not in check(
        f"""module @m {{ {ORDERED}
          func.func public @main(%a: tensor<24x24xf32> {{{same}}}) -> (tensor<24x24xf32> {{{same}}}) {{
            %0 = stablehlo.tanh %a : tensor<24x24xf32>
            return %0 : tensor<24x24xf32>
          }} }}""",
        8,
        np.tanh,
        SQUARE,
    )


def meshes_without_a_common_cut() -> None:
    meshes = 'sdy.mesh @wide = <["x"=2, "y"=3]>\n sdy.mesh @tall = <["a"=3, "b"=2]>'
    for a, b, out in (
        (sdy("wide", '{"x"}, {"y"}'), sdy("tall", '{"a"}, {"b"}'), sdy("tall", '{"b"}, {"a"}')),
        (sdy("tall", '{"a"}, {}'), sdy("wide", '{}, {"y"}'), sdy("wide", '{"x"}, {"y"}')),
    ):
        check(matmul(a, b, out, meshes), 6, product, SQUARE, SQUARE)


def constraints_in_another_order() -> None:
    text = f"""module @m {{ {ORDERED}
      func.func public @main(%a: tensor<24x24xf32> {{{sdy("plain", '{"x"}, {"y"}')}}}) -> tensor<24x24xf32> {{
        %0 = sdy.sharding_constraint %a <@mixed, [{{"b"}}, {{"a"}}]> : tensor<24x24xf32>
        %1 = stablehlo.tanh %0 : tensor<24x24xf32>
        return %1 : tensor<24x24xf32>
      }} }}"""
    check(text, 8, np.tanh, SQUARE)


def mhlo_sharding_of_both_kinds() -> None:
    texts = [
        "{devices=[2,4]<=[8]}",
        "{devices=[4,2]<=[2,4]T(1,0)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[2,4]0,1,2,3,4,5,6,7}",
        "{devices=[2,4]3,1,0,2,7,6,5,4}",
        "{devices=[2,2,2]<=[8] last_tile_dims={replicated}}",
        "{replicated}",
    ]
    for i, a in enumerate(texts):
        b, out = texts[(i + 1) % len(texts)], texts[(i + 3) % len(texts)]
        first, second, result = (f'mhlo.sharding = "{s}"' for s in (a, b, out))
        check(matmul(first, second, result, ""), 8, product, SQUARE, SQUARE)


def sizes_in_any_order() -> None:
    a = sdy("mixed", '{"b"}, {"a"}')
    for size in (24, 40):
        check(matmul(a, a, a, ORDERED, size), 8, product, (size, size), (size, size))


def groups_barriers_and_priorities() -> None:
    text = """module @m {
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func public @main(
          %a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {?}p0]>},
          %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p0, {}]>}) -> tensor<8x16xf32> {
        %0 = stablehlo.add %a, %b : tensor<8x16xf32>
        sdy.sharding_group %0 group_id=7 : tensor<8x16xf32>
        %1 = sdy.propagation_barrier %0 allowed_direction=BACKWARD : tensor<8x16xf32>
        %2 = stablehlo.tanh %1 : tensor<8x16xf32>
        sdy.sharding_group %2 group_id=7 : tensor<8x16xf32>
        return %2 : tensor<8x16xf32>
      }
    }"""
    check(text, 8, lambda a, b: np.tanh(a + b), (8, 16), (8, 16))


def annotations_wherever_they_may_stand() -> None:
    def one(dims: str) -> str:
        return f"sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{dims}]>]>"

    text = f"""module @m {{
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func public @main(%a: tensor<7x18xf32>) -> tensor<7x18xf32> {{
        %0 = stablehlo.tanh %a {{mhlo.sharding = "{{devices=[2,4]<=[8]}}"}} : tensor<7x18xf32>
        %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{{"y"}}, {{}}]> : tensor<7x18xf32>
        %2 = sdy.named_computation<"foo">(%1) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
            out_shardings=[<@mesh, [{{}}, {{"y"}}]>] (%b: tensor<7x18xf32>) {{
          %10 = stablehlo.tanh %b : tensor<7x18xf32>
          sdy.return %10 : tensor<7x18xf32>
        }} : (tensor<7x18xf32>) -> tensor<7x18xf32>
        %3 = func.call @f(%2) {{{one('{}, {"x"}')}}} : (tensor<7x18xf32>) -> tensor<7x18xf32>
        %4 = stablehlo.constant dense<0> : tensor<i32>
        %5:2 = stablehlo.while(%i = %4, %s = %3) : tensor<i32>, tensor<7x18xf32>
          attributes {{mhlo.sharding = "{{{{replicated}}, {{devices=[4,2]<=[8]}}}}"}}
        cond {{
          %10 = stablehlo.constant dense<3> : tensor<i32>
          %11 = stablehlo.compare LT, %i, %10 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %11 : tensor<i1>
        }} do {{
          %10 = stablehlo.constant dense<1> : tensor<i32>
          %11 = stablehlo.add %i, %10 : tensor<i32>
          %12 = stablehlo.cosine %s : tensor<7x18xf32>
          stablehlo.return %11, %12 : tensor<i32>, tensor<7x18xf32>
        }}
        %6 = "stablehlo.case"(%5#0) ({{
          %10 = stablehlo.negate %5#1 : tensor<7x18xf32>
          stablehlo.return %10 : tensor<7x18xf32>
        }}, {{
          stablehlo.return %5#1 : tensor<7x18xf32>
        }}) {{{one('{"y"}, {"x"}')}}} : (tensor<i32>) -> tensor<7x18xf32>
        return %6 : tensor<7x18xf32>
      }}
      func.func private @f(%a: tensor<7x18xf32> {{{sdy("mesh", '{"y"}, {"x"}')}}})
          -> (tensor<7x18xf32> {{{sdy("mesh", '{"y", "x"}, {}')}}}) {{
        %0 = stablehlo.sine %a : tensor<7x18xf32>
        return %0 : tensor<7x18xf32>
      }}
    }}"""

    def expected(a: np.ndarray) -> np.ndarray:
        return np.cos(np.cos(np.cos(np.sin(np.tanh(np.tanh(a))))))

    per_device = check(text, 8, expected, (7, 18))
    assert "while" in per_device and "tensor<2x9xf32>" in per_device  # the loop's own


CASES = [
    orders_of_devices,
    transposed_orders_need_no_permute,
    meshes_without_a_common_cut,
    constraints_in_another_order,
    mhlo_sharding_of_both_kinds,
    sizes_in_any_order,
    groups_barriers_and_priorities,
    annotations_wherever_they_may_stand,
]


def main() -> None:
    outcome = {}
    for case in CASES:
        try:
            case()
            outcome[case.__name__] = ""
        except Exception:
            outcome[case.__name__] = traceback.format_exc()[-3000:]
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
